"""Every widget in its chapter, in a real JupyterLab: reached and moved by keys alone."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from browser_driver import PATIENCE, ROOT, Page, jupyter_lab
from PIL import Image

KEPT = ROOT / "figures" / "screenshots"
SCROLL = """async picture => {  // to the middle, and until that is painted: a film begins there
    picture.scrollIntoView({block: 'center', behavior: 'instant'})
    for (let frame = 0; frame < 30; frame++) await new Promise(requestAnimationFrame)
}"""
IN_README = {"06_masks": "mask_explorer", "11_decoding": "heads_explorer"}
CHOOSE = "Space ArrowDown Enter"  # in a list; alone, ArrowDown moves from cell to cell
LIKE = 6.0  # mean difference of two screenshots, of 255: fonts differ between computers


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
        "10_training",
        {
            "warm-up steps": "ArrowRight",
            "width d_model": "ArrowRight",
            "steps shown": "ArrowRight",
            "smoothing ε": "ArrowRight",
        },
    ),
    Tour(
        "11_decoding",
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


@pytest.fixture(scope="module")
def address(browser, tmp_path_factory):
    """Start JupyterLab on a copy of the chapters; return its address."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("notebooks", "figures"):
        shutil.copytree(ROOT / name, folder / name)
    with jupyter_lab(folder, tmp_path_factory.mktemp("settings")) as address:
        yield address


def moved(widget, label: str, keys: str) -> dict[str, str]:
    """Move a control by keys, wait for the answer, and return the state before."""
    before = widget.state()
    if widget.control(label).get_attribute("type") == "text":
        widget.write(label, keys)
    else:
        widget.press(label, *keys.split())
    return before


def small(path: Path) -> np.ndarray:
    """Read a screenshot, small and grey."""
    return np.asarray(Image.open(path).convert("L").resize((48, 48)), dtype=float)


def assert_the_readme_shows(made: Path, kept: Path) -> None:
    """Hold the README's screenshot against what was seen now (make screenshots replaces it)."""
    if os.environ.get("KEEP_SCREENSHOTS"):
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(made, kept)
    difference = np.abs(small(made) - small(kept)).mean()
    assert difference < LIKE, f"{kept.name} is out of date ({difference:.1f}): make screenshots"


@pytest.mark.parametrize("tour", TOURS, ids=lambda tour: tour.chapter)
def test_every_control_moves_picture_and_numbers(tour: Tour, address: str, lab_page: Page):
    lab_page.open(address, f"notebooks/{tour.chapter}.ipynb")
    lab_page.run_all()
    widget = lab_page.explorer()
    assert sorted(widget.labels()) == sorted(tour.keys)
    made = lab_page.keep(tour.chapter, widget.box)
    if tour.chapter in IN_README:
        assert_the_readme_shows(made, KEPT / f"{IN_README[tour.chapter]}.png")
    for label, keys in tour.keys.items():
        pixels = widget.pixels()
        before = moved(widget, label, keys)
        widget.wait_for_change(before, label)
        assert widget.pixels() != pixels, label
    if tour.wrong:
        label, typed, answer = tour.wrong
        picture = widget.pixels()
        widget.write(label, typed)
        widget.box.locator('[role="alert"]').filter(has_text=answer).wait_for(timeout=PATIENCE)
        assert widget.pixels() == picture
    lab_page.keep(f"{tour.chapter}_moved")
    assert lab_page.hosts == {"127.0.0.1"}
    assert not lab_page.errors


def test_a_picture_never_flickers(address: str, lab_page: Page):
    lab_page.open(address, "notebooks/01_attention.ipynb")
    lab_page.run_all()
    widget = lab_page.explorer()
    widget.press("query, across")  # only reach it: the page may scroll now, not later
    widget.picture.evaluate(SCROLL)
    box = widget.picture.bounding_box()
    with lab_page.film() as frames:
        for _ in range(6):
            before = moved(widget, "query, across", "ArrowLeft")
            widget.wait_for_change(before, "query, across")
            lab_page.page.wait_for_timeout(200)  # for the camera
    assert widget.picture.bounding_box() == box, "the picture moved"
    left, top = round(box["x"]), round(box["y"])
    area = (left, top, left + round(box["width"]), top + round(box["height"]))
    inks = [np.asarray(frame.convert("L").crop(area)).std() for frame in frames]
    assert len(inks) >= 3  # a busy machine takes fewer pictures
    assert min(inks) > 0.8 * max(inks), f"a blank frame: {[round(ink, 1) for ink in inks]}"
