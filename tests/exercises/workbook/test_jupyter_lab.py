"""``course learn`` and ``course lab`` open JupyterLab in the right place and keep all files."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from urllib.parse import unquote

import pytest

from course_lib.cli import main as cli
from course_lib.exercises.checking.report import Report
from course_lib.exercises.library.progress import items, note
from course_lib.exercises.workbook import jupyter_lab
from course_lib.exercises.workbook import workbook_folder as workbook
from course_lib.exercises.workbook.workbook_folder import make_workbook

ROOT = Path(__file__).parents[3]
CHAPTERS = ("00_start_here", "01_attention", "06_masks")
BOOK = Path("it's mein Büch")
FIRST = "00_start_here.ipynb"


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Record the commands that would start JupyterLab; the course has only a few chapters."""
    course, commands = tmp_path / "course", []
    (course / "notebooks").mkdir(parents=True)
    (course / "figures").symlink_to(ROOT / "figures")
    for name in CHAPTERS:
        shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", course / "notebooks")
    (tmp_path / "here").mkdir()
    monkeypatch.setattr(workbook, "COURSE", course)

    class Process:
        """A JupyterLab that ends when it is asked to."""

        def __init__(self, command, env, cwd):
            commands.append((command, env, cwd))
            self.code = None

        def terminate(self):
            self.code = 0

        def wait(self):
            signal.raise_signal(signal.SIGINT)  # JupyterLab decides
            assert self.code is None
            signal.raise_signal(signal.SIGTERM)
            return self.code

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.chdir(tmp_path / "here")
    return commands


def run(capsys, *words) -> str:
    """Run a command that succeeds, and return its output."""
    assert cli.main([*map(str, words)]) == 0
    return capsys.readouterr().out


def page_in(command: list[str]) -> str:
    """Return the file that JupyterLab would open."""
    (page,) = [word.partition("/lab/tree/")[2] for word in command if "default_url" in word]
    return unquote(page)


def finish(folder: Path, chapters: range) -> None:
    """Record that all exercises of these chapters are correct."""
    here = Path.cwd()
    os.chdir(folder)
    for item in items():
        if item.chapter in chapters:
            note(Report(item.name, True))
    os.chdir(here)


def test_learn_makes_a_workbook_and_opens_it_at_the_next_chapter(opened, capsys):
    interrupts = signal.getsignal(signal.SIGINT)
    out = run(capsys, "learn", BOOK)
    for place in (BOOK, BOOK / "my_lib"):
        assert f" {place.resolve()}\n" in out
    assert FIRST in out and "course learn 'it'\"'\"'s mein Büch'\n" in out and "Ctrl-C" in out
    command, environment, folder = opened.pop()
    assert command[:3] == [sys.executable, "-m", "jupyterlab"] and folder == BOOK
    assert f"--ServerApp.root_dir={BOOK.resolve()}" in command and page_in(command) == FIRST
    assert environment["PATH"].split(os.pathsep)[0] == sysconfig.get_path("scripts")
    assert signal.getsignal(signal.SIGINT) is interrupts
    for last, page in ((0, "01_attention"), (2, "06_masks"), (99, "06_masks")):
        finish(BOOK, range(last + 1))
        run(capsys, "learn", BOOK)
        assert page_in(opened.pop()[0]) == f"{page}.ipynb"


def test_learn_finds_the_workbook_and_passes_options_on(opened, capsys):
    assert "learn workbook\n" in run(capsys, "learn", "--", "--no-browser", "--x=/a//b/")
    assert opened.pop()[0][-2:] == ["--no-browser", "--x=/a//b/"]
    os.chdir("workbook")
    run(capsys, "learn", ".", "--", "--port=1")
    assert opened.pop()[0][-1] == "--port=1"
    run(capsys, "learn", "--copy-only")
    assert not opened and not Path("workbook").exists()


def test_learn_restores_missing_files_and_does_not_change_other_files(opened, capsys):
    make_workbook(BOOK, solutions=False)
    whole = {path: path.read_bytes() for path in BOOK.rglob("*") if path.is_file()}
    mine, missing = BOOK / "01_attention.ipynb", [BOOK / FIRST, BOOK / "my_lib" / "masks.py"]
    mine.write_text("mine")
    for path in missing:
        path.unlink()
    out = run(capsys, "learn", BOOK, "--copy-only")
    assert "restored the missing files: my_lib/masks.py, 00_start_here.ipynb.\n" in out
    assert "edition" not in out and mine.read_text() == "mine"
    assert {path: path.read_bytes() for path in whole} == whole | {mine: b"mine"}


def test_a_folder_that_is_not_a_workbook_is_explained_and_left_alone(opened, capsys):
    Path("notes").mkdir()
    Path("notes/README.md").write_text("mine")
    before = sorted(Path().rglob("*"))
    for words, reason in [
        (["learn", "notes"], "course learn notes/workbook`"),
        (["lab", "notes"], "not empty"),
        (["learn", "notes/README.md"], "is a file"),
        (["learn", workbook.COURSE], "the course itself"),
    ]:
        assert cli.main([*map(str, words)]) == 2
        err = capsys.readouterr().err
        assert reason in err and err.count("\n") == 1, words
    assert not opened and sorted(Path().rglob("*")) == before


def test_lab_opens_the_completed_chapters_without_copies_in_the_courses_own_folder(
    opened, capsys, monkeypatch
):
    out = run(capsys, "lab", "--", "--no-browser")
    assert f" {Path('chapters/notebooks').resolve()}\n" in out and "course learn\n" in out
    assert page_in(opened[0][0]) == f"notebooks/{FIRST}" and opened[0][2] == Path("chapters")
    run(capsys, "lab", workbook.COURSE)
    assert opened[1][2] == workbook.COURSE and page_in(opened[1][0]) == f"notebooks/{FIRST}"
    monkeypatch.chdir("chapters")
    run(capsys, "lab")
    assert opened[2][2] == Path(".") and not Path("chapters").exists()
    monkeypatch.setattr(jupyter_lab, "find_spec", lambda name: None)
    assert cli.main(["lab"]) == 2
    assert "pip install jupyterlab ipykernel`" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["learn workbook", "lab ."])
def test_make_passes_options_to_the_command(target):
    command = ["make", "-n", "--no-print-directory", target.split()[0]]
    command.append("OPTIONS=--no-browser --port=1")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f".venv/bin/course {target} -- --no-browser --port=1\n")


def test_the_first_chapter_says_which_edition_it_is(opened):
    make_workbook(BOOK)
    for folder, name in ((BOOK, "your workbook"), (workbook.COURSE / "notebooks", "the completed")):
        assert f"You are in {name}" in (folder / FIRST).read_text("utf-8")
