"""Colors are shown on a terminal only, and only if the user wants them."""

import io
import sys

import pytest

from course_lib.terminal import paint_signs


@pytest.mark.parametrize(
    ("is_terminal", "environment", "platform", "colored"),
    [
        (True, {}, "linux", True),
        (False, {}, "linux", False),
        (True, {"NO_COLOR": "1"}, "linux", False),
        (True, {"TERM": "dumb"}, "linux", False),
        (True, {}, "win32", False),
        (True, {"WT_SESSION": "x"}, "win32", True),
    ],
)
def test_colors_are_for_terminals(is_terminal, environment, platform, colored, monkeypatch):
    stdout = io.StringIO()
    stdout.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "platform", platform)
    for name in ("NO_COLOR", "WT_SESSION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm"} | environment).items():
        monkeypatch.setenv(name, value)
    assert paint_signs("✓ done") == ("\033[32m✓\033[0m done" if colored else "✓ done")
    assert paint_signs("◐ begun") == ("\033[33m◐\033[0m begun" if colored else "◐ begun")
