"""Chapters in a real JupyterLab: nothing jumps while scrolling, and opening one changes nothing."""

import pytest
from browser_driver import Lab

from course_lib.exercises.workbook import make_workbook

MAX_JUMP = 20  # pixels


def test_nothing_jumps_while_a_reader_scrolls_up(course, lab: Lab):
    lab.open("notebooks/21_modern_models.ipynb")
    jumps = lab.jumps_while_scrolling_up()
    assert len(jumps) > 30, "the chapter is long"
    assert max(map(abs, jumps)) <= MAX_JUMP


@pytest.fixture(scope="module")
def workbook(course):
    """Write a workbook into the course's folder."""
    make_workbook(course / "unchanged_workbook")


@pytest.mark.parametrize(
    "path", ["notebooks/06_masks.ipynb", "unchanged_workbook/01_attention.ipynb"]
)
def test_opening_and_saving_a_chapter_changes_nothing(path, course, workbook, lab: Lab):
    before = (course / path).read_bytes()
    lab.open(path)
    assert not lab.is_unsaved()
    written = (course / path).stat().st_mtime_ns
    lab.save()
    assert (course / path).stat().st_mtime_ns != written
    assert (course / path).read_bytes() == before and not lab.is_unsaved()
