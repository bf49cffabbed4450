"""Start JupyterLab, and do in a notebook what a reader does with the mouse and the keys."""

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / ".build" / "screenshots"  # git-ignored; CI may keep them
IDLE = (
    "() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status"
    " === 'idle'"
)
SETTINGS = {
    "notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}


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
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        cwd=folder,
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
        page: The browser's page.
        errors: What the console complained about.
        hosts: Every computer that was asked for something.
    """

    def __init__(self, page, errors: list[str], hosts: set[str]) -> None:
        self.page, self.errors, self.hosts = page, errors, hosts

    def open(self, address: str, notebook: str) -> None:
        """Open a notebook and wait for its kernel."""
        self.page.goto(f"{address}/lab/tree/{notebook}?token=test-token&reset")
        self.page.wait_for_function(IDLE, timeout=120_000)
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
        self.page.wait_for_function(IDLE, timeout=120_000)

    def expect(self, place: int, words: str) -> None:
        """Wait until a cell shows some words, scrolled into view."""
        cell = self.page.locator(f'.jp-Cell[data-windowed-list-index="{place}"]')
        shown = cell.locator(".jp-OutputArea-output").filter(has_text=words).first
        shown.wait_for(timeout=30_000)
        shown.scroll_into_view_if_needed()

    def keep(self, name: str) -> Path:
        """Take a picture of the window."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png")
        return PICTURES / f"{name}.png"
