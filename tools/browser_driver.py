"""Start JupyterLab and a browser, and do in a notebook what a reader does with the keys."""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, TimeoutError, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / ".build" / "screenshots"  # git-ignored; CI may keep them
IDLE = (
    "() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status"
    " === 'idle'"
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PATIENCE = 60_000  # ms: a busy machine is no bug
NO_BROWSER = "no Chromium here; on Debian: apt-get install chromium"
CHANGED = """([img, words, before]) => img.src !== before.src && img.complete
    && img.naturalWidth > 0 && words.textContent !== before.words"""
# or two of them meet in the home folder, in databases and workspaces, and one is refused
OWN = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]
SETTINGS = {
    "notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}


@contextmanager
def chromium():
    """Start the system's Chromium, and yield it; ``None`` where there is none."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        yield None
        return
    with sync_playwright() as running:
        window = running.chromium.launch(executable_path=program, args=QUIET)
        yield window
        window.close()


@contextmanager
def jupyter_lab(folder: Path, settings: Path):
    """Start JupyterLab on a folder, and yield its address."""
    home = settings / "@jupyterlab" / "apputils-extension"
    home.mkdir(parents=True)
    for name, content in SETTINGS.items():
        (home / name).write_text(json.dumps(content), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = (
        f"--no-browser --allow-root --ip=127.0.0.1 --port={port} --ServerApp.port_retries=0 "
        "--IdentityProvider.token=test-token --ServerApp.root_dir=. --expose-app-in-browser "
        f"--LabApp.user_settings_dir={settings} --LabApp.extension_manager=readonly"
    ).split()
    own = {name: str(settings / name) for name in OWN}
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        cwd=folder,
        env=os.environ | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=30)


def wait_for(port: int, server: subprocess.Popen, seconds: float = 60) -> None:
    """Wait until somebody listens at a port."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert server.poll() is None, "JupyterLab ended before it answered"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"JupyterLab did not answer within {seconds:.0f} s")


class Page:
    """Hold an open notebook, with what a test does there.

    Args:
        browser: What ``chromium`` yields.

    Attributes:
        page: The browser's page.
        errors: What the console complained about.
        hosts: Every computer that was asked for something.
    """

    def __init__(self, browser) -> None:
        self.page = browser.new_page(viewport={"width": 1100, "height": 1000})
        self.errors, self.hosts = [], set()
        self.page.on("console", self._listen)
        self.page.on("request", lambda asked: self.hosts.add(asked.url.split("/")[2].split(":")[0]))

    def _listen(self, said) -> None:
        """Keep what the console says in red."""
        if said.type == "error":
            self.errors.append(f"{said.text} {said.location}")

    def open(self, address: str, notebook: str) -> None:
        """Open a notebook and wait for its kernel."""
        self.page.goto(f"{address}/lab/tree/{notebook}?token=test-token&reset")
        self.page.wait_for_function(IDLE, timeout=2 * PATIENCE)
        self.page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")

    def run(self, place: int, source: str | None = None) -> None:
        """Run the cell at a place, after typing a source into it if one is given."""
        self.page.evaluate(
            """([place, source]) => {
                const notebook = window.jupyterapp.shell.currentWidget.content;
                notebook.activeCellIndex = place;
                notebook.deselectAll();
                if (source !== null) notebook.activeCell.model.sharedModel.setSource(source);
                return window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            [place, source],
        )
        self.page.wait_for_function(IDLE, timeout=2 * PATIENCE)

    def expect(self, place: int, words: str) -> None:
        """Wait until a cell shows some words, scrolled into view."""
        cell = self.page.locator(f'.jp-Cell[data-windowed-list-index="{place}"]')
        shown = cell.locator(".jp-OutputArea-output").filter(has_text=words).first
        shown.wait_for(timeout=PATIENCE)
        shown.scroll_into_view_if_needed()

    def keep(self, name: str, part: Locator | None = None) -> Path:
        """Take a picture of the window, or of a part of it."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        (part or self.page).screenshot(path=PICTURES / f"{name}.png")
        return PICTURES / f"{name}.png"

    @contextmanager
    def film(self) -> Iterator[list[Image.Image]]:
        """Collect every frame that the browser paints, while the context lasts."""
        frames, camera = [], self.page.context.new_cdp_session(self.page)

        def keep(frame: dict) -> None:
            """Keep a frame, and ask for the next."""
            frames.append(Image.open(BytesIO(base64.b64decode(frame["data"]))))
            camera.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

        camera.on("Page.screencastFrame", keep)
        camera.send("Page.startScreencast", {"format": "png"})
        yield frames
        camera.send("Page.stopScreencast")
        camera.detach()

    def run_all(self) -> None:
        """Run all cells, and wait for the last one."""
        self.page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(IDLE, timeout=2 * PATIENCE)

    def explorer(self, place: int | None = None) -> "Widget":
        """Find the widget of a cell, or the only one of a chapter, scrolled into view."""
        cell = ".jp-Cell" if place is None else f'.jp-Cell[data-windowed-list-index="{place}"]'
        found = self.page.locator(f"{cell} .widget-vbox:has(img.widget-image)")
        found.wait_for(timeout=PATIENCE)
        found.scroll_into_view_if_needed()
        return Widget(found)


class Widget:
    """Hold a widget on a page, with what a reader does to it without a mouse.

    Args:
        box: Where it stands: its controls, its picture and its sentence.
    """

    def __init__(self, box: Locator) -> None:
        self.box, self.page = box, box.page
        self.picture = box.locator("img.widget-image").element_handle()
        self.words = box.locator(".widget-html").last.element_handle()

    def control(self, label: str) -> Locator:
        """Find what takes the keys of a control, by the words beside it."""
        whole = self.box.locator(".widget-inline-hbox, .widget-checkbox")
        whole = whole.filter(has=self.page.get_by_text(label, exact=True))
        return whole.locator('.noUi-handle, select, input[type="text"], input[type="checkbox"]')

    def labels(self) -> list[str]:
        """List the words beside all controls."""
        texts = self.box.locator(".widget-label, .widget-checkbox span").all_inner_texts()
        return [text for text in texts if text.strip("\u200b")]  # empty beside a checkbox

    def press(self, label: str, *keys: str) -> None:
        """Reach a control and press keys; anything longer than a key's name is typed."""
        self.control(label).focus()
        for key in keys:
            self.page.keyboard.press(key)

    def write(self, label: str, words: str) -> None:
        """Put words into a text box."""
        self.press(label, "Control+a")
        self.page.keyboard.type(words)
        self.page.keyboard.press("Enter")

    def state(self) -> dict[str, str]:
        """Return the picture's address and the sentence."""
        return {"src": self.picture.get_attribute("src"), "words": self.words.inner_text()}

    def pixels(self) -> bytes:
        """Return the picture's file."""
        read = "async img => [...new Uint8Array(await (await fetch(img.src)).arrayBuffer())]"
        return bytes(self.picture.evaluate(read))

    def wait_for_change(self, before: dict[str, str], why: str) -> None:
        """Wait until picture and sentence are no longer what they were.

        Args:
            before: What ``state`` returned.
            why: What should have changed them.
        """
        parts = [self.picture, self.words, before]
        try:
            self.page.wait_for_function(CHANGED, arg=parts, timeout=PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"{why}: from {before} to {self.state()}") from error
