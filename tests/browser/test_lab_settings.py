"""Chapters in a real JupyterLab do not change when they are opened."""

import pytest
from browser_driver import Lab

from course_lib.exercises.workbook.workbook_folder import make_workbook


@pytest.fixture(scope="module")
def workbook(course):
    """Write a workbook into the course's folder."""
    make_workbook(course / "unchanged_workbook")


@pytest.mark.parametrize(
    "path", ["notebooks/06_masks.ipynb", "unchanged_workbook/01_attention.ipynb"]
)
def test_opening_and_saving_a_chapter_does_not_change_it(path, course, workbook, lab: Lab):
    before = (course / path).read_bytes()
    lab.open(path)
    assert not lab.is_unsaved()
    written = (course / path).stat().st_mtime_ns
    lab.page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    assert (course / path).stat().st_mtime_ns != written
    assert (course / path).read_bytes() == before and not lab.is_unsaved()
