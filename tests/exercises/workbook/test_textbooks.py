"""Every cell of every chapter runs with the answers of five textbooks (`make textbooks`)."""

from functools import cache

import pytest
from chapter_runner import Runner
from textbooks import BOOKS, cells_of
from workbook_solver import WORKED, filled, run_chapter, write_workbook

pytestmark = [pytest.mark.workbook, pytest.mark.textbooks]
ALL = [pytest.param(book, file, id=f"{book}-{file[:-6]}") for book in BOOKS for file in WORKED]


@pytest.fixture(scope="module")
def workbook(tmp_path_factory):
    """Return a function that writes the workbook of a book's reader, once per book."""
    return cache(lambda book: write_workbook(tmp_path_factory.mktemp(book) / "workbook"))


@pytest.mark.parametrize("book, file", ALL)
def test_every_cell_runs_with_the_answers_of_a_book(book, file, workbook):
    """Chapters export their answers, so the chapters of one book run one after another."""
    cells = filled(workbook(book), file, cells_of(book), others=True)
    with Runner() as runner:
        said, _ = run_chapter(runner, cells, (workbook(book) / file).parent)
    assert not [name for name, words in said.items() if "Not yet:" in words]
