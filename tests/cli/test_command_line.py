"""Commands that we print run as printed, and colors appear only on a terminal."""

import io
import os
import shlex
import subprocess
import sys
import sysconfig

import pytest

from course_lib.cli import main as cli
from course_lib.support.terminal import as_typed, environment_path, paint_signs


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Return the ``bin`` of an environment whose commands print their path and arguments."""
    programs = tmp_path / "it's ours" / "bin"
    programs.mkdir(parents=True)
    for name in ("course", "pip"):
        (programs / name).write_text('#!/bin/sh\nprintf "%s|" "$0" "$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setattr(sysconfig, "get_path", {"scripts": str(programs)}.get)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return programs


def ran(command: str) -> str:
    """Run a command in a shell, and return its output."""
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


def test_a_printed_command_runs_with_and_without_an_activated_environment(environment, monkeypatch):
    folder = environment.parents[1]
    for here in (folder, folder / "deep", environment):
        here.mkdir(exist_ok=True)
        monkeypatch.chdir(here)
        command = as_typed("learn", "my book")
        program, *words, _ = ran(command).split("|")
        assert os.path.samefile(program, environment / "course") and words == ["learn", "my book"]
        assert shlex.split(command)[0] != "course"
    monkeypatch.chdir(folder)
    assert as_typed("learn") == "'it'\"'\"'s ours/bin/course' learn"
    monkeypatch.setenv("PATH", environment_path())
    assert as_typed("learn", "my book") == "course learn 'my book'"


@pytest.mark.parametrize(
    ("is_terminal", "environment", "colored"),
    [(True, {}, True), (True, {"NO_COLOR": "1"}, False), (False, {}, False)],
)
def test_colors_appear_only_on_terminals(is_terminal, environment, colored, monkeypatch):
    stdout = io.StringIO()
    stdout.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm"} | environment).items():
        monkeypatch.setenv(name, value)
    assert paint_signs("✓ done") == ("\033[32m✓\033[0m done" if colored else "✓ done")
    assert paint_signs("◐ begun") == ("\033[33m◐\033[0m begun" if colored else "◐ begun")


def test_a_stream_gets_what_it_can_encode(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "latin-1"))
    monkeypatch.setattr(cli, "run", lambda arguments, command: print("✓ Größe", flush=True) or 0)
    assert cli.main(["progress"]) == 0
    assert written.getvalue().decode("latin-1") == f"? Größe{os.linesep}"


def test_a_user_without_a_home_folder_is_named(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["train", "--out", "~nouser/x"])
    assert caught.value.code == 2 and "'~nouser/x' names a user" in capsys.readouterr().err
