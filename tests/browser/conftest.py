"""One browser and one JupyterLab for all tests; each test opens its own notebook."""

import shutil
from collections.abc import Callable, Iterator

import pytest
from browser_driver import NO_BROWSER, ROOT, Lab, chromium, jupyter_lab
from explorer_page import SHARPNESS, served
from playwright.sync_api import Page


@pytest.fixture(scope="session")
def browser():
    """Start the system's Chromium, or skip the test and say how to install it."""
    with chromium() as browser:
        if browser is None:
            pytest.skip(NO_BROWSER)
        yield browser


@pytest.fixture(scope="session")
def address():
    """Serve the repository, and return its address."""
    with served() as place:
        yield place


@pytest.fixture(scope="session")
def only_tab(browser) -> Page:
    """Open a tab that all tests share, because a new one takes longer than most tests."""
    return browser.new_page(device_scale_factor=SHARPNESS)


@pytest.fixture
def tab(only_tab) -> Iterator[Page]:
    """Empty the tab after a test, and check that no page raised an error."""
    errors = []
    note = lambda error: errors.append(str(error))  # noqa: E731
    only_tab.on("pageerror", note)
    yield only_tab
    only_tab.unroute_all()
    only_tab.mouse.move(0, 0)
    only_tab.goto("about:blank")
    only_tab.remove_listener("pageerror", note)
    assert not errors


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """Copy only the chapters into a folder, which JupyterLab shows."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    return folder


@pytest.fixture(scope="session")
def jupyter(browser, course, tmp_path_factory):
    """Open JupyterLab in the course's folder, as ``make lab`` does."""
    with jupyter_lab(course, tmp_path_factory.mktemp("settings")) as address:
        yield Lab(browser, address, "notebooks/00_start_here.ipynb")


@pytest.fixture
def lab(jupyter):
    """Return JupyterLab; at the end, check that it has no errors and contacted no other host."""
    yield jupyter
    jupyter.page.evaluate("jupyterapp.shell.currentWidget.dispose()")  # its kernel stays
    errors, hosts = jupyter.errors, jupyter.hosts
    jupyter.errors, jupyter.hosts = [], set()
    assert not errors
    assert hosts == {"127.0.0.1"}


@pytest.fixture
def read_until(lab):
    """Run a cell until its output is accepted, because choices reach the kernel with a delay."""

    def read(index: int, accepts: Callable[[str], bool]) -> str:
        for _ in range(20):
            lab.run_cell(index)
            text = lab.cell(index).locator(".jp-OutputArea-output").inner_text().strip()
            if text and accepts(text):
                return text
        raise AssertionError(f"cell {index} still prints {text!r}")

    return read
