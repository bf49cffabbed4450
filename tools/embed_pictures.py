"""Embed the drawings in the chapters, so that a chapter that is opened alone shows its pictures.

A chapter names its pictures, as in ``![alt text][01_attention.svg]``, and the last lines of the
cell define the names: ``[01_attention.svg]: data:image/png;base64,…``. We chose this form because
Google Colab shows neither attachments nor SVG, and because JupyterLab shows no SVG attachments.
"""

import base64
import hashlib
import re
import sys
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

import nbformat
from browser_driver import NO_BROWSER, chromium
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Page

from course_lib.atomic_write import write_whole
from notebooks import ROOT, chapters

SCALE = 1.25  # 800 pixels wide, which viewers show at this width
COLORS = 64  # drawings use few colors
AS_FILE = re.compile(r"(!\[[^\]]*\])\(\.\./figures/([\w.]+\.svg)\)")  # in a new cell
AS_NAME = re.compile(r"!\[[^\]]*\]\[([\w.]+\.svg)\]")
DEFINITION = re.compile(r"\[([\w.]+\.svg)\]: data:image/png;base64,([\w+/=]*)")


def as_files(text: str) -> str:
    """Return a text in which the names of the pictures mean the files in ``../figures``."""
    return DEFINITION.sub(r"[\1]: ../figures/\1", text)


def checksum(name: str) -> str:
    """Return a checksum of a drawing in ``figures``."""
    return hashlib.sha256((ROOT / "figures" / name).read_bytes()).hexdigest()


def checksum_inside(data: str) -> str:
    """Return the checksum of the drawing from which a PNG picture was made."""
    return Image.open(BytesIO(base64.b64decode(data))).text["Source"] if data else ""


def embedded(text: str, picture: Callable[[str], str]) -> str:
    """Return the text of a cell in which every picture shows what its drawing shows now.

    Args:
        text: A cell's source.
        picture: Returns a drawing, given its name, as a PNG picture in base64.
    """
    old, text = dict(DEFINITION.findall(text)), AS_FILE.sub(r"\1[\2]", text)
    names = dict.fromkeys(AS_NAME.findall(text))  # each once
    current = {n: old[n] for n in names if checksum_inside(old.get(n, "")) == checksum(n)}
    lines = [f"[{n}]: data:image/png;base64,{current.get(n) or picture(n)}" for n in names]
    words = DEFINITION.sub("", text).rstrip("\n") if old else text
    return "\n".join([f"{words}\n", *lines]) if lines else words


def draw(page: Page, name: str) -> str:
    """Draw a picture in the browser; return it as a PNG picture in base64."""
    page.set_content((ROOT / "figures" / name).read_text(encoding="utf-8"))
    drawn = Image.open(BytesIO(page.locator("svg").first.screenshot())).convert("RGB")
    info, file = PngInfo(), BytesIO()
    info.add_text("Source", checksum(name))
    few = drawn.quantize(COLORS, dither=Image.Dither.NONE)
    few.save(file, "PNG", optimize=True, pnginfo=info)
    return base64.b64encode(file.getvalue()).decode()


def revised(path: Path, picture: Callable[[str], str]) -> str:
    """Return the whole text of a chapter with current pictures."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = embedded(cell.source, picture)
    return nbformat.writes(notebook) + "\n"


def write(root: Path = ROOT, check: bool = False) -> list[str]:
    """Embed the drawings again where they changed; return the names of these chapters.

    Args:
        root: The folder that contains ``notebooks``.
        check: Whether to change nothing.
    """
    changed = [
        path
        for path in chapters(root)
        if revised(path, lambda name: "") != path.read_text(encoding="utf-8")
    ]
    if changed and not check:
        with chromium() as browser:
            if browser is None:
                sys.exit(f"Chromium draws the embedded pictures; {NO_BROWSER}")
            page = browser.new_page(device_scale_factor=SCALE)
            for path in changed:
                write_whole(path, revised(path, partial(draw, page)))
    return [path.name for path in changed]


if __name__ == "__main__":
    print(*write(), sep="\n")
