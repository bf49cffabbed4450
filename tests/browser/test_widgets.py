"""Every widget in its chapter, in a real JupyterLab: reached and moved by keys alone."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from browser_driver import ROOT, Lab, code_cells
from PIL import Image
from playwright.sync_api import expect

README_SCREENSHOTS = ROOT / "figures" / "screenshots"
IN_README: dict[str, str] = {}
MAX_DIFFERENCE = 6.0  # mean of two screenshots, of 255: fonts differ between computers
RUN_ALL = "03_positions"  # as a reader does; of the others only what the widget needs
CHOOSE = "Space ArrowDown Enter"  # in a list; alone, ArrowDown moves from cell to cell


@dataclass(frozen=True)
class Tour:
    """Name a chapter's widget, and the keys that move each control, in this order.

    Args:
        chapter: The notebook's name.
        keys: For every control its label, and keys; what is typed into a text box as one text.
        wrong: A text box, and what no number or sentence is; the answer is a sentence.
    """

    chapter: str
    keys: dict[str, str]
    wrong: tuple[str, str, str] | None = None


TOURS = [
    Tour(
        "03_positions",
        {
            "chosen position": "ArrowLeft",
            "pair of columns": "ArrowRight",
            "width d_model": "ArrowLeft",
            "positions": "ArrowLeft",
            "base": "ArrowLeft",
            "code": CHOOSE,
        },
    ),
]


def small(path: Path) -> np.ndarray:
    """Read a screenshot, small and grey."""
    return np.asarray(Image.open(path).convert("L").resize((48, 48)), dtype=float)


def assert_the_readme_shows(made: Path, kept: Path) -> None:
    """Hold the README's screenshot against what was seen now (make screenshots replaces it)."""
    if os.environ.get("KEEP_SCREENSHOTS"):
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(made, kept)
    difference = np.abs(small(made) - small(kept)).mean()
    message = f"{kept.name} is out of date ({difference:.1f}): make screenshots"
    assert difference < MAX_DIFFERENCE, message


@pytest.mark.parametrize("tour", TOURS, ids=lambda tour: tour.chapter)
def test_every_control_moves_picture_and_numbers(tour: Tour, course, lab: Lab):
    path = f"notebooks/{tour.chapter}.ipynb"
    cells = code_cells(course / path)
    index = next(n for n, source in cells.items() if source.endswith("Explorer()"))
    lab.open(path)
    if tour.chapter == RUN_ALL:
        lab.run_all()
    else:
        lab.run_imports(cells, index)
        lab.run_cell(index)
    widget = lab.widget(index)
    expect(widget.labels).to_have_count(len(tour.keys))
    for label in tour.keys:
        expect(widget.control(label), label).to_have_count(1)
    made = lab.screenshot(tour.chapter, widget.box)
    if tour.chapter in IN_README:
        assert_the_readme_shows(made, README_SCREENSHOTS / f"{IN_README[tour.chapter]}.png")
    for label, keys in tour.keys.items():
        pixels = widget.pixels()
        widget.change(label, keys)
        assert widget.pixels() != pixels, label
    if tour.wrong:
        label, typed, answer = tour.wrong
        pixels = widget.pixels()
        widget.press(label, typed)
        expect(widget.box.get_by_role("alert")).to_contain_text(answer)
        widget.settle()
        assert widget.pixels() == pixels
    lab.screenshot(f"{tour.chapter}_moved")
