"""Chapters in a real JupyterLab do not jump while scrolling or change when they are opened."""

import pytest
from browser_driver import Lab
from playwright.sync_api import Page

from course_lib.exercises.workbook.workbook_folder import make_workbook

MAX_JUMP = 20  # pixels
SCROLLED = "jupyterapp.shell.currentWidget.content.node.querySelector('.jp-WindowedPanel-outer')"
LAST_CELL = f"() => {{ const page = {SCROLLED}; page.scrollTop = page.scrollHeight; }}"
SEE_CELL = f"""() => {{
    const page = {SCROLLED}, area = page.getBoundingClientRect();
    const inside = cell => cell.getBoundingClientRect().top < area.top + area.height / 2;
    window.seenCell = [...page.querySelectorAll('.jp-Cell')].findLast(inside);
    return [page.scrollTop, seenCell.getBoundingClientRect().top];
}}"""
HAS_MOVED = f"before => {SCROLLED}.scrollTop !== before"
CELL_PLACE = "() => seenCell.getBoundingClientRect().top"


def jumps_while_scrolling_up(page: Page, step: int = 200) -> list[float]:
    """Turn the mouse wheel from the end of the notebook to its start.

    Returns:
        For every turn, the distance in pixels between a visible cell and its expected place.
    """
    for _ in range(2):  # the notebook can grow when its end becomes visible
        page.evaluate(LAST_CELL)
        page.wait_for_timeout(500)
    page.mouse.move(800, 500)
    jumps, (position, before) = [], page.evaluate(SEE_CELL)
    while position > 0:
        page.mouse.wheel(0, -step)
        page.wait_for_function(HAS_MOVED, arg=position)
        page.wait_for_timeout(100)
        jumps.append(page.evaluate(CELL_PLACE) - before - min(step, position))
        position, before = page.evaluate(SEE_CELL)
    return jumps


def test_cells_do_not_jump_while_a_reader_scrolls_up(course, lab: Lab):
    lab.open("notebooks/21_modern_models.ipynb")
    jumps = jumps_while_scrolling_up(lab.page)
    assert len(jumps) > 30, "the chapter is too short for this test"
    assert max(map(abs, jumps)) <= MAX_JUMP


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
