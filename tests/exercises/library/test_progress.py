"""Progress is kept in one local file, and a damaged file never stops a check."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from course_lib.cli import main as cli
from course_lib.exercises.checking.contents import module_of
from course_lib.exercises.checking.exercise import exercises, find_exercise
from course_lib.exercises.checking.report import Report
from course_lib.exercises.library.package import INIT
from course_lib.exercises.library.progress import Item, Progress, items, note, noted, progress
from course_lib.exercises.questions.question import questions
from course_lib.exercises.workbook.notebook_builder import Chapter
from notebooks import chapters

CHAPTERS = [Chapter.read(path) for path in chapters()]
RIGHT = Report("causal_mask", True)
WRONG = Report("causal_mask", False, "transposed", "a hint")
STUB = Report("causal_mask", False, attempted=False)


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Change to a folder with a ``my_lib``, and return the library."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_lib").mkdir()
    (tmp_path / "my_lib" / "__init__.py").write_text(INIT)
    return tmp_path / "my_lib"


def kept(library: Path) -> dict:
    return json.loads((library / "progress.json").read_text())


# --- what is saved


def test_progress_keeps_the_last_state_and_every_correct_answer(library):
    assert note(STUB) is STUB and [path.name for path in library.iterdir()] == ["__init__.py"]
    note(Report("causal_mask", False, "off_by_one"))
    assert note(WRONG) is WRONG
    note(STUB)
    latest = {"state": "not yet", "mistake": "transposed"}
    assert kept(library) == {"causal_mask": latest | {"done": False}}
    note(Report("a_task_of_tomorrow", True))  # from another edition
    for report, found in (
        (RIGHT, {"state": "correct", "mistake": None}), (WRONG, latest), (STUB, latest)
    ):  # fmt: skip
        after = note(report).after
        parts = sum(item.kind == "build" for item in progress().states)
        assert (after.count(f" is done: 1 of {parts}. Next: `") == 1) == report.passed
        assert noted(library, "causal_mask") == found
    assert kept(library)["a_task_of_tomorrow"]["state"] == "correct"
    shown = {item.name: state for item, state in progress().states.items()}
    assert (shown["causal_mask"], shown["padding_mask"]) == ("correct", "not attempted")
    assert sorted(path.name for path in library.glob("[!.]*")) == ["__init__.py", "progress.json"]


def test_chapters_that_run_at_the_same_time_keep_every_result(library):
    names = {f"task {number}" for number in range(60)}
    with ThreadPoolExecutor(4) as chapters:
        list(chapters.map(lambda name: note(Report(name, True)), names))
    assert kept(library).keys() == names


def test_without_a_package_no_progress_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workbook" / "my_lib").mkdir(parents=True)
    assert note(RIGHT) is RIGHT
    assert [path.name for path in tmp_path.rglob("*")] == ["workbook", "my_lib"]
    assert set(progress().states.values()) == {"not attempted"}
    assert capsys.readouterr().err == ""


def test_a_file_that_cannot_be_read_is_moved_aside(library, capsys):
    content = b"[" * 100_000
    for number in (1, 2):
        (library / "progress.json").write_bytes(content)
        assert note(WRONG) is WRONG and kept(library)["causal_mask"]["state"] == "not yet"
        assert (library / f"progress.json.aside-{number}").read_bytes() == content
        (line,) = capsys.readouterr().err.splitlines()
        assert "progress.json" in line and f"progress.json.aside-{number}" in line


# --- what is shown


def test_every_task_is_listed_once_by_chapter():
    numbers = {chapter.module: int(chapter.file[:2]) for chapter in CHAPTERS}
    built = [find_exercise(name) for name in exercises()]
    wanted = [Item(one.name, numbers[one.module], "build", one.minutes) for one in built]
    wanted += [Item(one.name, one.chapter, one.kind, one.minutes) for one in questions()]
    assert items() == sorted(wanted, key=lambda item: item.chapter)
    assert all(item.minutes > 0 for item in wanted)
    assert len({item.name for item in wanted}) == len(wanted)
    assert [module_of(one.name) for one in built] == [one.module for one in built]


SOME = {
    Item("guess", 0, "predict", 3): "not yet",
    Item("causal_mask", 6, "build", 50): "correct",
    Item("padding_mask", 6, "build", 70): "not attempted",
}


def test_the_command_lists_every_exercise():
    assert Progress(SOME).listing() == (
        "1 of 3 done; the next one takes about 3 min\n"
        "\n"
        "✗ Chapter 00                   0 of 1 done, about 0 h 3 min left\n"
        "    ✗ guess                         predict          3 min\n"
        "◐ Chapter 06 · masks           1 of 2 done, about 1 h 10 min left\n"
        "    ✓ causal_mask                   build           50 min\n"
        "    ○ padding_mask                  build           70 min"
    )


def test_an_answer_that_passed_is_counted_and_followed_by_the_next_item():
    shown = Progress(SOME | {Item("padding_mask", 6, "build", 70): "correct"})
    assert shown.after("guess") == ""
    told = "`causal_mask` is done: 2 of 2. Next: chapter 00."
    assert shown.after("causal_mask") == told
    assert Progress(SOME).after("guess") == "Next: chapter 06."
    assert (
        Progress(SOME).after("causal_mask", "is yours").startswith("`causal_mask` is yours: 1 of")
    )
    new = Progress(dict.fromkeys(SOME, "not attempted")).after("causal_mask")
    assert new == "`causal_mask` is done: 1 of 2. Next: `padding_mask` (70 min)."


# --- course progress


def test_the_command_ends_with_the_next_step(library, capsys, monkeypatch):
    assert cli.main(["progress"]) == 0
    first = items()[0]
    told = f"\n\nNext: chapter 00, {first.name} ({first.minutes} min): "
    assert told in capsys.readouterr().out
    assert cli.main(["progress", "--all"]) == 0
    assert progress().listing() in capsys.readouterr().out
    assert cli.main(["progress", "--parts"]) == 0
    assert progress().parts() in capsys.readouterr().out
    for item in items():
        note(Report(item.name, True))
    assert cli.main(["progress"]) == 0 and "Next" not in capsys.readouterr().out


def test_the_command_finds_the_workbook(library, tmp_path, capsys, monkeypatch):
    note(RIGHT)
    library.parent.joinpath("elsewhere").mkdir()
    calls = [(".", []), (".", ["my_lib"]), ("my_lib", ["."]), ("elsewhere", [".."])]
    for place, arguments in calls:
        monkeypatch.chdir(tmp_path / place)
        assert cli.main(["progress", *arguments]) == 0
        assert capsys.readouterr().out.startswith("1 of ")
        monkeypatch.chdir(tmp_path)
    (tmp_path / "workbook").mkdir()
    os.replace(library, tmp_path / "workbook" / "my_lib")
    assert cli.main(["progress"]) == 0
    assert capsys.readouterr().out.startswith("1 of ")


def test_a_folder_without_a_package_is_explained(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, named in [([], "workbook"), (["there"], "there")]:
        assert cli.main(["progress", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and err.startswith("course progress: ")
        assert f"no my_lib in {named}" in err and "course learn workbook` creates" in err
