"""The position explorer plays without a kernel, and its chapter knows the reader's choice."""

import re

from browser_driver import code_cells
from explorer_page import open_explorer
from playwright.sync_api import Page, expect

from course_lib.viz.position_explorer import PositionExplorer

CHAPTER = "notebooks/03_positions.ipynb"
LEFT, TOP = 44, 32  # of the map, as in positions.js


def map_of(page: Page):
    """Find the part of the drawing that chooses a position and a pair."""
    return page.locator(".explorer .handle").first


def test_it_plays_on_request(tab, address):
    page = open_explorer(tab, address, PositionExplorer(position=3))
    first = re.compile("^position 3, ")
    expect(map_of(page)).to_have_attribute("aria-valuetext", first)
    page.get_by_role("button", name="Play").click()
    expect(map_of(page)).not_to_have_attribute("aria-valuetext", first)


def test_a_click_chooses_the_cell_under_the_pointer(tab, address):
    page = open_explorer(tab, address, PositionExplorer(positions=8, d_model=4))
    box = page.locator(".explorer svg").first.bounding_box()
    for position, pair in ((0, 0), (5, 1), (7, 0)):
        across, down = 258 * (pair + 0.8) / 2, 440 * (position + 0.2) / 8
        page.mouse.click(box["x"] + LEFT + across, box["y"] + TOP + down)
        chosen = re.compile(f"^position {position}, pair {pair}: ")
        expect(map_of(page)).to_have_attribute("aria-valuetext", chosen)
    page.get_by_role("button", name="Reset").click()  # back to the state from Python
    expect(map_of(page)).to_have_attribute("aria-valuetext", re.compile("^position 7, pair 1: "))


def test_all_cells_of_its_chapter_run_and_python_knows_what_the_reader_chose(
    course, lab, read_until
):
    cells = code_cells(course / CHAPTER)
    (index,) = (n for n, source in cells.items() if source == "PositionExplorer()")
    lab.open(CHAPTER)
    assert lab.page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    lab.run_cell(index, "explorer = PositionExplorer()\nexplorer")
    handle = map_of(lab.cell(index))
    handle.scroll_into_view_if_needed()
    handle.press("ArrowUp")
    handle.press("ArrowRight")
    expect(handle).to_have_attribute("aria-valuetext", re.compile("^position 39, pair 4: "))
    box = lab.cell(index).locator(".explorer svg").first.bounding_box()
    lab.page.mouse.click(box["x"] + 50, box["y"] + 45)
    lab.run_cell(index + 2, "print(explorer.position, explorer.pair)")
    read_until(index + 2, "1 0".__eq__)
