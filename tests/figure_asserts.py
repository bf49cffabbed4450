"""Assertions that a widget's picture is readable and that its chapter describes it."""

import base64
import io
import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image
from playwright.sync_api import Locator

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def answer_of_chapter(explorer: type) -> str:
    """Return the text below the cell that shows an explorer, and a cell's printed output."""
    pages = [*NOTEBOOKS.glob("*.ipynb"), *NOTEBOOKS.glob("side_trips/*.ipynb")]
    cells = [cell for path in pages for cell in nbformat.read(path, as_version=4).cells]
    (shown,) = (i for i, c in enumerate(cells) if c.source == f"{explorer.__name__}()")
    answer = []
    for cell in cells[shown + 1 :]:
        answer += [output.get("text", "") for output in cell.get("outputs", [])]
        if cell.cell_type == "markdown":
            return " ".join([*answer, *cell.source.split()])
    return ""


def shown_image(data: dict[str, str]) -> tuple[Image.Image, dict[str, str]]:
    """Read the picture in an output, and the attributes of its only ``<img>``.

    The PNG and the HTML must contain the same picture.
    """
    (tag,) = re.findall("<img [^>]*>", data["text/html"])
    attributes = ElementTree.fromstring(f"{tag}</img>").attrib
    assert attributes["src"] == f"data:image/png;base64,{data['image/png']}"
    return Image.open(io.BytesIO(base64.b64decode(data["image/png"]))), attributes


def texts(fig: Figure) -> list[Text]:
    """List all visible texts."""
    fig.canvas.draw()
    outside = set()  # ticks outside the limits keep invisible labels
    for axis in (axis for ax in fig.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.majorTicks:
            if not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
                outside |= {tick.label1, tick.label2}
    found = (t for t in fig.findobj(Text) if t.get_text().strip() and t.get_visible())
    return [text for text in found if text not in outside]


def assert_readable(fig: Figure, smallest: float = 10.0) -> None:
    """Assert that no text is cut off, overlaps another text, or is too small."""
    painted = texts(fig)
    boxes = [(text.get_text(), text.get_window_extent().extents.tolist()) for text in painted]
    for text, (name, (left, low, right, high)) in zip(painted, boxes, strict=True):
        assert text.get_fontsize() >= smallest, name
        assert min(left, low) > -1 and right <= fig.bbox.x1 and high <= fig.bbox.y1, (
            f"{name} is cut off"
        )
    for (one, first), (two, second) in combinations(boxes, 2):
        across = min(first[2], second[2]) - max(first[0], second[0])
        down = min(first[3], second[3]) - max(first[1], second[1])
        assert min(across, down) <= 1, f"{one} overlaps {two}"


def assert_in_no_box(part: Locator, dark: bool) -> None:
    """Assert that a part of a page stands on the page's own ground, and that its ink is readable.

    The pixels on both sides of the part's edge have the color of a page in this theme.
    """
    part.scroll_into_view_if_needed()
    box = part.bounding_box()
    around = {"x": box["x"] - 6, "y": box["y"] - 6}
    clip = around | {"width": box["width"] + 12, "height": box["height"] + 12}
    painted = Image.open(io.BytesIO(part.page.screenshot(clip=clip))).convert("L")
    light = np.asarray(painted, dtype=float) / 255
    edge = np.ones(light.shape, dtype=bool)
    edge[12:-12, 12:-12] = False
    ground = np.median(light[edge])
    assert ground < 0.2 if dark else ground > 0.8
    assert (np.abs(light[edge] - ground) < 0.06).mean() > 0.7, "there is a box around it"
    assert np.abs(light - ground).max() > 0.3, "its ink has the color of the page"
