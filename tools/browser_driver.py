"""Drive JupyterLab in a browser: open notebooks, run cells, and wait for their outputs.

Nothing depends on timing, because Playwright's assertions wait for the page, and we wait until the
kernel has finished with each message.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, Locator, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 120_000  # ms, for every wait, because a slow machine is not a bug
POLLING = 50  # ms; by default, Playwright checks at every frame and slows the kernel
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
NO_BROWSER = "Chromium is not installed; on Debian, run: apt-get install chromium"
CLOSED_EARLY = "Could not restore the debugger state"  # logged after a test closes a notebook
# otherwise, two servers share the databases and workspaces of the home folder, and one fails
PRIVATE_FOLDERS = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
# tracks the messages that the kernel has not finished with; its "idle" names the finished one
OPEN = """async ([path, shared]) => {
    await jupyterapp.restored;
    jupyterapp.shell.collapseLeft();
    const kernel = shared ? window.sharedKernel : undefined;
    const notebook = await jupyterapp.commands.execute('docmanager:open', {path, kernel});
    await notebook.revealed;
    await notebook.sessionContext.ready;
    const connection = notebook.sessionContext.session.kernel;
    window.sharedKernel ??= {id: connection.id};
    const unanswered = window.unanswered = new Set();
    connection.anyMessage.connect((_, {msg, direction}) => {
        if (direction === 'send') unanswered.add(msg.header.msg_id);
        if (msg.content.execution_state === 'idle') unanswered.delete(msg.parent_header.msg_id);
    });
}"""
IN_FRONT = "path => window.jupyterapp?.shell?.currentWidget?.context?.path === path"
READY = """() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'
    && jupyterapp.commands.isEnabled('notebook:run-cell')"""
RUN_CELL = """([index, source]) => {
    const notebook = jupyterapp.shell.currentWidget.content;
    notebook.activeCellIndex = index;
    notebook.deselectAll();
    if (source !== null) notebook.activeCell.model.sharedModel.setSource(source);
    return jupyterapp.commands.execute('notebook:run-cell');
}"""
UNSAVED = """() => {
    const { content, title } = jupyterapp.shell.currentWidget;
    return content.model.dirty || title.className.includes('jp-mod-dirty');
}"""


@contextmanager
def chromium() -> Iterator[Browser | None]:
    """Start the system's Chromium and yield it, or yield ``None`` if it is not installed."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        yield None
        return
    expect.set_options(timeout=TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu"])
        yield browser
        browser.close()


@contextmanager
def jupyter_lab(folder: Path, settings: Path) -> Iterator[str]:
    """Start JupyterLab in a folder with the course's settings, and yield its address."""
    options = (
        "--no-browser --allow-root --ip=127.0.0.1 --port=0 --ServerApp.root_dir=. "
        "--IdentityProvider.token=test-token --expose-app-in-browser "
        f"--LabApp.user_settings_dir={settings} --LabApp.extension_manager=readonly "
        f"--LabApp.app_settings_dir={ROOT / 'lab_settings'}"
    ).split()
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        cwd=folder,
        env=os.environ | dict.fromkeys(PRIVATE_FOLDERS, str(settings)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield wait_for_address(server, settings / f"jpserver-{server.pid}.json")
    finally:
        server.terminate()
        server.wait(timeout=TIMEOUT / 1000)


def wait_for_address(server: subprocess.Popen, info: Path) -> str:
    """Wait until JupyterLab has written its port to ``info``, and return its address."""
    end = time.monotonic() + TIMEOUT / 1000
    while not (info.exists() and info.stat().st_size):
        assert server.poll() is None, "JupyterLab exited before it wrote its port"
        assert time.monotonic() < end, "JupyterLab did not start in time"
        time.sleep(0.1)
    return f"http://127.0.0.1:{json.loads(info.read_text(encoding='utf-8'))['port']}"


def write_notebook(path: Path, *sources: str) -> None:
    """Write a notebook with a code cell for each source."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [new_code_cell(source) for source in sources]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, path)


def code_cells(path: Path) -> dict[int, str]:
    """Return the source of each code cell in a notebook, by its index among all cells."""
    cells = enumerate(nbformat.read(path, as_version=4).cells)
    return {index: cell.source for index, cell in cells if cell.cell_type == "code"}


class Lab:
    """A JupyterLab page in a browser, with methods that act on the active notebook.

    It opens the notebook ``path`` at an address from ``jupyter_lab``, and keeps it open.
    ``errors`` lists the console's errors and uncaught exceptions, and ``hosts`` names every host
    that the page has sent a request to.
    """

    def __init__(self, browser: Browser, address: str, path: str) -> None:
        self.page = browser.new_page(viewport={"width": 1100, "height": 1000})
        self.page.set_default_timeout(TIMEOUT)
        self.errors, self.hosts = [], set()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        for event in ("request", "websocket"):
            self.page.on(event, self._on_request)
        self.page.goto(f"{address}/lab/tree/{path}?token=test-token")
        self.page.wait_for_function(IN_FRONT, arg=path)  # or it covers the next one later
        self.open(path)

    def _on_console(self, message) -> None:
        """Record a message that the console shows as an error."""
        if message.type == "error" and CLOSED_EARLY not in message.text:
            self.errors.append(f"{message.text} {message.location}")

    def _on_request(self, request) -> None:
        """Record the host of a request to ``http://host:port/…`` or ``blob:http://host:port/…``."""
        self.hosts.add(request.url.split("/")[2].split(":")[0])

    def open(self, path: str, shared: bool = True) -> None:
        """Open a notebook with the first notebook's kernel or a new one, and wait for the kernel.

        Starting a kernel and importing torch in it takes longer than everything else in a test.
        """
        self.page.evaluate(OPEN, [path, shared])
        self.page.wait_for_function(IN_FRONT, arg=path, polling=POLLING)
        self.page.wait_for_function(READY, polling=POLLING)

    def run_cell(self, index: int, source: str | None = None) -> None:
        """Run a cell to completion; if a source is given, put it into the cell first."""
        assert self.page.evaluate(RUN_CELL, [index, source]), self.cell(index).inner_text()

    def cell(self, index: int) -> Locator:
        """Find a cell by its index in the active notebook."""
        notebook = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        return notebook.locator(f'.jp-Cell[data-windowed-list-index="{index}"]')

    def expect_output(self, index: int, text: str) -> None:
        """Wait until the output of a cell contains the text, and scroll the output into view."""
        output = self.cell(index).locator(".jp-OutputArea-output").filter(has_text=text).first
        expect(output).to_be_visible()
        output.scroll_into_view_if_needed()

    def is_unsaved(self) -> bool:
        """Return whether the active notebook is marked as unsaved."""
        return self.page.evaluate(UNSAVED)
