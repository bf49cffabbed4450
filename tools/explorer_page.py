"""Open the explorers in a browser without a kernel, and take still pictures of them.

python tools/explorer_page.py [NAME …] writes course_lib/viz/stills/NAME.png of the initial state,
and for heads also the README's docs/_static/heads_broken.png, after "Break it".
"""

import argparse
import functools
import http.server
import io
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from browser_driver import NO_BROWSER, ROOT, chromium
from build_site import explorer_element
from PIL import Image
from playwright.sync_api import Page, Route

from course_lib.viz.explorer_base import FOLDER, Explorer
from course_lib.viz.heads_explorer import HeadsExplorer

for path in sorted(FOLDER.glob("*_explorer.py")):
    import_module(f"course_lib.viz.{path.stem}")
EXPLORERS: list[type[Explorer]] = Explorer.__subclasses__()
BROKEN = ROOT / "docs" / "_static" / "heads_broken.png"
SHARPNESS = 2  # image pixels per CSS pixel
STILL = """.explorer .frame { width: fit-content; }
.explorer :is(.head, .controls, .frame:not(.beside) .said) { display: none !important; }"""
PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><title>{name}</title>
<link rel="stylesheet" href="/docs/_static/viz/explorer.css">
<body style="margin: 0"><main>
{element}</main>
<script type="module" src="/docs/_static/explorers.js"></script></body></html>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A handler that serves a folder, with the explorers' modules at the site's URLs."""

    def translate_path(self, path: str) -> str:
        """Return the file of an explorer's module, given the module's address on the site."""
        return super().translate_path(path.replace("/docs/_static/viz/", "/course_lib/viz/"))

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@contextmanager
def served(folder: Path = ROOT) -> Iterator[str]:
    """Serve a folder on this computer, and yield the address."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def open_explorer(
    page: Page,
    address: str,
    explorer: Explorer,
    *,
    theme: str = "light",
    width: int = 1280,
    files: dict[str, Path] | None = None,
) -> Page:
    """Open an explorer alone on a page, as the site does, and wait until it is drawn.

    Nothing moves. ``files`` names more files, which the page can load.
    """
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(reduced_motion="reduce")
    for name, path in (files or {}).items():
        page.route(f"**/{name}", functools.partial(fulfill, path))
    element = explorer_element(explorer.module, explorer.state())
    body = PAGE.format(theme=theme, name=explorer.module, element=element)
    url = f"{address}/page.html"
    page.route(url, lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(url)
    page.wait_for_selector(".explorer svg")
    return page


def fulfill(path: Path, route: Route) -> None:
    """Answer a request with a file."""
    route.fulfill(path=path)


def take_still(page: Page) -> Image.Image:
    """Take a picture of an explorer without its heading and controls."""
    page.add_style_tag(content=STILL)
    box = page.locator(".explorer .frame")
    return Image.open(io.BytesIO(box.screenshot())).convert("RGB").quantize(64)


def pictured(names: Sequence[str]) -> Iterator[tuple[Path, Explorer]]:
    """Yield each picture's file and the explorer that it shows."""
    for each in EXPLORERS:
        if not names or each.module in names:
            yield FOLDER / "stills" / f"{each.module}.png", each()
            if each is HeadsExplorer:
                broken = HeadsExplorer()
                broken.breaks = 1
                yield BROKEN, broken


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names
    with chromium() as browser, served() as address:
        if browser is None:
            raise SystemExit(NO_BROWSER)
        page = browser.new_page(device_scale_factor=SHARPNESS)
        for path, explorer in pictured(names):
            take_still(open_explorer(page, address, explorer)).save(path, optimize=True)
            print(path.relative_to(ROOT))
