"""The mask explorer responds to pointer and keyboard, and explains what it shows."""

import pytest
from explorer_numbers import numbers
from explorer_page import open_explorer
from playwright.sync_api import expect

from course_lib.viz.mask_explorer import CROSS, MaskExplorer

LEFT, TOP, CELL = 70, 92, 39  # of the table, as in masks.js


@pytest.fixture
def page(tab, address):
    """Open the explorer in the state that chapter 06 shows."""
    return open_explorer(tab, address, MaskExplorer())


def drag(page, *cells):
    """Press the pointer on the first cell, move it over the other cells, and release it."""
    box = page.locator(".explorer svg").first.bounding_box()
    for n, (t, s) in enumerate(cells):
        page.mouse.move(box["x"] + LEFT + CELL * (s + 0.5), box["y"] + TOP + CELL * (t + 0.5))
        if n == 0:
            page.mouse.down()
    page.mouse.up()


def rows(page) -> list[str]:
    """Read the mask: ✓ is open, ! is open and leaks, and · is blocked."""
    cells = page.locator(".explorer .handle").first.locator("text").all_text_contents()
    return ["".join(cell or "·" for cell in cells[6 * t : 6 * t + 6]) for t in range(6)]


def said(page) -> str:
    """Read the sentences that the explorer shows."""
    return page.locator(".explorer .said").inner_text()


def test_the_first_cell_decides_whether_a_drag_opens_or_blocks_every_cell(page):
    before = ["✓·····", "✓✓····", "✓✓✓···", "✓✓✓✓··", "✓✓✓✓··", "✓✓✓✓··"]
    assert rows(page) == before
    drag(page, (1, 2), (1, 5))  # a fast drag over a blocked cell, two more, and the last
    assert rows(page) == [before[0], "✓✓!!!!", *before[2:]]
    drag(page, (1, 5), (1, 2))
    drag(page, (0, 1), (0, 0))  # to a cell that is open and stays open
    assert rows(page) == ["✓!····", *before[1:]]
    drag(page, (0, 0), (3, 3))  # from an open cell, over open and blocked ones
    assert rows(page) == ["·!····", "✓·····", "✓✓····", "✓✓✓···", "✓✓✓✓··", "✓✓✓✓··"]
    drag(page, (5, 5), (5, 9), (5, 4))  # out of the table and back
    assert rows(page)[5] == "✓✓✓✓✓✓"


def test_the_keyboard_moves_a_cursor_and_opens_cells(page):
    page.locator(".explorer .handle").first.focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowRight", "Space"):
        page.keyboard.press(key)
    assert rows(page)[1] == "✓✓··!·"
    handle = page.locator(".explorer .handle").first
    expect(handle).to_have_attribute("aria-valuetext", "drei may look at [pad]")
    printed = page.locator(".explorer svg").first.locator("g").first.locator("text")
    cells = " ".join(printed.all_text_contents()).partition("added ")[2]
    assert cells == (
        "True True False False True False False False True True False True 0 0 −inf −inf 0 −inf"
    )
    for _ in range(9):
        page.keyboard.press("ArrowDown")
    expect(handle).to_have_attribute("aria-valuetext", "[pad] may not look at [pad]")


def test_it_reports_leaks_and_empty_rows(page):
    assert "leaks" not in said(page)
    page.get_by_role("button", name="padding").click()
    leaked = numbers(MaskExplorer(mask="padding"))["leaked"][:3]
    words = ["[bos]", "drei", "hundert"]
    leaks = [f"“{word}” {leak:.2f}" for word, leak in zip(words, leaked, strict=True)]
    assert f"Weight on later positions: {', '.join(leaks)}." in said(page)
    frames = page.locator(".explorer rect.future")
    assert frames.count() == 2 * (3 + 2 + 1), "every leaking cell, in both tables"
    page.get_by_role("button", name=CROSS).click()
    assert "leaks" not in said(page) and frames.count() == 0
    page.get_by_label("source words").fill("[pad] [pad]")
    assert "our weights are 0 there, and those of nn.MultiheadAttention are nan" in said(page)
