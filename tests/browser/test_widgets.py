"""Every widget in its chapter, in a real JupyterLab: reached and moved by keys alone."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from browser_driver import ROOT, Lab, code_cells, write_notebook
from PIL import Image
from playwright.sync_api import expect

README_SCREENSHOTS = ROOT / "figures" / "screenshots"
IN_README = {"06_masks": "mask_explorer", "12_decoding": "heads_explorer"}
MAX_DIFFERENCE = 6.0  # mean of two screenshots, of 255: fonts differ between computers
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
        "01_attention",
        {
            "query, across": "ArrowLeft",
            "query, up": "ArrowRight",
            "divide by √d_k": "Space",
            "d_k": "ArrowRight",
            "temperature": "ArrowRight",
        },
    ),
    Tour(
        "06_masks",
        {
            "row (query)": "ArrowLeft",
            "hide the future (causal)": "Space",
            "attention": CHOOSE,
            "source words": "seventy eight",
            "source length": "ArrowLeft",
            "source padding": "ArrowRight",
            "target words": "acht und siebzig",
            "target length": "ArrowLeft",
            "target padding": "ArrowLeft",
        },
        wrong=("target words", "a b c d e f g", "7 words"),
    ),
    Tour(
        "11_training",
        {
            "warm-up steps": "ArrowRight",
            "width d_model": "ArrowRight",
            "steps shown": "ArrowRight",
            "smoothing ε": "ArrowRight",
        },
    ),
    Tour(
        "12_decoding",
        {
            "number": "7,078",
            "head to look at": "ArrowRight",
            "attention": CHOOSE,
            "layer": "ArrowLeft",
            **{f"head {n} off": "Space" for n in range(4)},
        },
        wrong=("number", "minus one", "minus"),
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


def test_a_picture_never_flickers(course, lab: Lab):
    write_notebook(
        course / "widget.ipynb",
        "from course_lib.viz.attention_explorer import AttentionExplorer\nAttentionExplorer()",
    )
    lab.open("widget.ipynb")
    lab.run_cell(0)
    widget = lab.widget(0)
    widget.control("query, across").focus()  # the page may scroll now, not later
    widget.picture.wait_for_element_state("stable")
    box = widget.picture.bounding_box()
    with lab.film() as frames:
        for _ in range(6):
            seen = len(frames)
            widget.change("query, across", "ArrowLeft")
            lab.wait_for_frame(frames, seen)
    assert widget.picture.bounding_box() == box, "the picture moved"
    left, top = round(box["x"]), round(box["y"])
    area = (left, top, left + round(box["width"]), top + round(box["height"]))
    inks = [round(float(np.std(frame.convert("L").crop(area))), 1) for frame in frames]
    assert min(inks) > 0.8 * max(inks), f"a blank frame: {inks}"
