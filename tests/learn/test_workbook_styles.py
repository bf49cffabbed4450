"""The workbook, solved in other styles than the course's: after a ✓ the rest of a chapter runs."""

import ast
import inspect
import json
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from solving import put, put_worked_cells, tasks

from course_lib.learn import exercises
from course_lib.learn.checks import exercise
from course_lib.learn.edition import Chapter, is_marked
from course_lib.learn.workbook import make_workbook

pytestmark = pytest.mark.workbook
ROOT = Path(__file__).resolve().parents[2]
EVERY = {path.name: Chapter.read(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
WORKED = {file: chapter for file, chapter in EVERY.items() if "01" <= file[:2] <= "09"}
MODULES = frozenset([chapter.module for chapter in EVERY.values()] + ["translator"])


def other_style(name: str) -> str:
    """Return what defines an exercise's name as its first right answer in another style."""
    answer = import_module(f"course_lib.learn.right.{exercise(name).module}").ANSWERS[name][0]
    return (
        f"from {answer.__module__} import {answer.__name__} as {name}\n{name}.__name__ = '{name}'"
    )


@pytest.fixture(scope="module")
def workbook(tmp_path_factory):
    """Write a workbook once; what a chapter exports, later chapters may import."""
    folder = tmp_path_factory.mktemp("workbook")
    make_workbook(folder)
    return folder


def run(file: str, answers: dict[str, str], folder: Path) -> dict[str, str]:
    """Fill a chapter in and run it, up to the first error; return what every exercise shows."""
    notebook = json.loads((folder / file).read_text(encoding="utf-8"))
    filled = put(put_worked_cells(notebook, WORKED[file], MODULES), answers)
    notebook = nbformat.reads(json.dumps(filled), as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    return {name: str(cell.get("outputs", [])) for cell in notebook.cells for name in tasks(cell)}


@pytest.mark.parametrize("file", WORKED)
def test_a_chapter_runs_with_right_answers_in_another_style(file, workbook):
    said = run(file, {name: other_style(name) for name in exercises()}, workbook)
    refused = {name: words for name, words in said.items() if f"Correct: {name}" not in words}
    assert said and not refused


@pytest.mark.parametrize("file", EVERY)
def test_a_chapter_calls_its_functions_by_place(file):
    """A learner may give parameters other names."""
    cells = (source for source in EVERY[file].sources if not is_marked(source, "export"))
    calls = [n for cell in cells for n in ast.walk(ast.parse(cell)) if isinstance(n, ast.Call)]
    for call in calls:
        name = getattr(call.func, "id", None)
        if name in exercises() and not isinstance(exercise(name).given, type):
            by_place = set(inspect.getfullargspec(inspect.unwrap(exercise(name).given)).args)
            assert not by_place & {keyword.arg for keyword in call.keywords}, ast.unparse(call)
