"""A real browser, and a page in it that listens for errors."""

import shutil

import pytest
from lab import Page, jupyter_lab

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@pytest.fixture(scope="session")
def browser():
    """Start the system's Chromium, or skip with the way to get it."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium here; on Debian: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        window = running.chromium.launch(executable_path=program, args=QUIET)
        yield window
        window.close()


@pytest.fixture
def lab(tmp_path_factory):
    """Hand out what starts JupyterLab on a folder: a context manager that yields the address."""
    return lambda folder: jupyter_lab(folder, tmp_path_factory.mktemp("settings"))


@pytest.fixture
def lab_page(browser):
    """Open a new page that listens for errors and for other hosts."""
    page = browser.new_page(viewport={"width": 1100, "height": 1000})
    errors, hosts = [], set()
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("request", lambda request: hosts.add(request.url.split("/")[2].partition(":")[0]))
    yield Page(page, errors, hosts)
    page.close()
