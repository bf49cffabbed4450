"""Embed the drawings in the chapters, so that a chapter shows its pictures wherever it is opened.

A cell refers to a picture by name, as in ``![alt text][01_attention.svg]``, and its last lines
define the names: ``[01_attention.svg]: data:image/png;base64,…``. We chose this form because Google
Colab shows neither attachments nor SVG, and because JupyterLab does not show SVG attachments.
"""

import base64
import hashlib
import re
import sys
from collections.abc import Callable
from functools import partial
from io import BytesIO
from itertools import chain

import nbformat
import numpy as np
from browser_driver import NO_BROWSER, chromium
from PIL import Image, ImageColor
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Page

from notebooks import ROOT, pages, rewrite

SCALE = 1.25  # so pictures are 675 pixels wide, and viewers show them at this width
COLORS = 96  # in a picture: the colors that its drawing names, and mixtures of them at edges
NAMED = re.compile(r"#[0-9A-Fa-f]{6}\b|rgb\([\d,]+\)")
STYLE = re.compile(r"<style>.*?</style>")  # the colors of the dark theme, which a PNG cannot follow
AS_FILE = re.compile(r"(!\[[^\]]*\])\((?:\.\./)+figures/([\w.]+\.svg)\)")  # in a new cell
AS_NAME = re.compile(r"!\[[^\]]*\]\[([\w.]+\.svg)\]")
PICTURE_DATA = re.compile(r"^\[[\w.]+\]: data:image/\S+$", re.MULTILINE)
DEFINITION = re.compile(r"\[([\w.]+\.svg)\]: data:image/png;base64,([\w+/=]*)")


def as_files(text: str, figures: str) -> str:
    """Return the text with picture names that refer to the files in a folder."""
    return DEFINITION.sub(rf"[\1]: {figures}/\1", text)


def checksum(name: str) -> str:
    """Return a checksum of a drawing in ``figures`` and the settings for its picture."""
    drawing = STYLE.sub("", (ROOT / "figures" / name).read_text(encoding="utf-8"))
    return hashlib.sha256(f"{drawing}{SCALE} {COLORS} transparent".encode()).hexdigest()


def checksum_inside(data: str) -> str:
    """Return the checksum of the drawing from which a PNG picture was made."""
    return Image.open(BytesIO(base64.b64decode(data))).text["Source"] if data else ""


def embedded(text: str, picture: Callable[[str], str]) -> str:
    """Return the text of a cell, in which every picture matches its drawing.

    ``picture`` takes the name of a drawing, and returns the drawing as a PNG in base64.
    """
    old, text = dict(DEFINITION.findall(text)), AS_FILE.sub(r"\1[\2]", text)
    names = dict.fromkeys(AS_NAME.findall(text))  # each once
    current = {n: old[n] for n in names if checksum_inside(old.get(n, "")) == checksum(n)}
    lines = [f"[{n}]: data:image/png;base64,{current.get(n) or picture(n)}" for n in names]
    words = DEFINITION.sub("", text).rstrip("\n") if old else text
    return "\n".join([f"{words}\n", *lines]) if lines else words


def reduced(drawn: Image.Image, svg: str) -> Image.Image:
    """Reduce a picture to a few colors, and keep the colors that its drawing names.

    Pillow alone would merge similar colors that are rare, such as the colors of two letters.
    """
    named = [ImageColor.getrgb(color) for color in dict.fromkeys(NAMED.findall(svg))]
    pixels = np.asarray(drawn.convert("RGB"))  # (height, width, 3)
    colors, place = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True)
    counts = np.bincount(place.ravel())
    mixed = [tuple(color) not in named for color in colors.tolist()]
    edges = np.repeat(colors[mixed], counts[mixed], axis=0)  # (pixels, 3)
    others = Image.fromarray(edges[None]).quantize(COLORS - len(named)).getpalette() or []
    palette = np.array([*chain(*named), *others]).reshape(-1, 3)  # (COLORS, 3), at most
    nearest = np.square(colors[:, None] - palette).sum(axis=-1).argmin(axis=-1)
    places = nearest[place].reshape(pixels.shape[:2])
    places[np.asarray(drawn)[..., 3] == 0] = len(palette)  # outside the round corners
    solid = np.pad(palette, ((0, 0), (0, 1)), constant_values=255)
    few = Image.fromarray(places.astype(np.uint8), "P")
    few.putpalette(bytes([*solid.astype(np.uint8).tobytes(), 255, 255, 255, 0]), "RGBA")
    return few


def draw(page: Page, name: str) -> str:
    """Draw a picture in the browser, and return it as a PNG in base64."""
    svg = STYLE.sub("", (ROOT / "figures" / name).read_text(encoding="utf-8"))
    page.set_content(f'<body style="background: none">{svg}')
    drawn = Image.open(BytesIO(page.locator("svg").first.screenshot(omit_background=True)))
    info, file = PngInfo(), BytesIO()
    info.add_text("Source", checksum(name))
    reduced(drawn, svg).save(file, "PNG", optimize=True, pnginfo=info)
    return base64.b64encode(file.getvalue()).decode()


def revised(text: str, picture: Callable[[str], str]) -> str:
    """Return the text of a chapter with all its pictures up to date."""
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = embedded(cell.source, picture)
    return nbformat.writes(notebook) + "\n"


def write(check: bool = False) -> list[str]:
    """Embed the changed drawings, or only check them; return the names of the stale chapters."""
    stale = rewrite(pages(), lambda _, text: revised(text, lambda name: ""), check=True)
    if stale and not check:
        with chromium() as browser:
            if browser is None:
                sys.exit(f"Chromium draws the embedded pictures. {NO_BROWSER}")
            picture = partial(draw, browser.new_page(device_scale_factor=SCALE))
            rewrite(pages(), lambda _, text: revised(text, picture), check=False)
    return stale


if __name__ == "__main__":
    print(*write(), sep="\n")
