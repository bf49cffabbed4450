"""Assertions that a widget's picture is readable and that its chapter describes it."""

import base64
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import numpy as np
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


def assert_in_no_box(part: Locator) -> None:
    """Assert that a part of a dark page stands on its ground, and that its ink is readable.

    The pixels on both sides of the part's edge have the color of a dark page.
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
    assert ground < 0.2
    assert (np.abs(light[edge] - ground) < 0.06).mean() > 0.7, "there is a box around it"
    assert np.abs(light - ground).max() > 0.3, "its ink has the color of the page"
