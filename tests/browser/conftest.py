"""A real browser, and a page in it that listens for errors."""

import pytest
from browser_driver import NO_BROWSER, Page, chromium, jupyter_lab


@pytest.fixture(scope="session")
def browser():
    """Start the system's Chromium, or skip with the way to get it."""
    with chromium() as window:
        if window is None:
            pytest.skip(NO_BROWSER)
        yield window


@pytest.fixture
def lab(tmp_path_factory):
    """Hand out what starts JupyterLab on a folder: a context manager that yields the address."""
    return lambda folder: jupyter_lab(folder, tmp_path_factory.mktemp("settings"))


@pytest.fixture
def lab_page(browser):
    """Open a new page that listens for errors and for other hosts."""
    page = Page(browser)
    yield page
    page.page.close()
