"""The workbench: what is kept of a saved chapter, and which tests run, and how."""

import copy
import subprocess

import pytest
import quick_tests
import run_tests
from nbformat.v4 import new_code_cell, new_notebook, new_output

import notebooks

BAR = {notebooks.WIDGET: {"model_id": "1"}, "text/plain": "  0%|          | 0/450"}
PICTURE = {"text/plain": "A map.", "text/html": "<img>", "image/png": "iVBORw0KGgo="}
EXPLORER = {notebooks.WIDGET: {"model_id": "2"}} | PICTURE


def tidied(*outputs):
    """Return what is left of the outputs of a cell."""
    notebook = new_notebook(cells=[new_code_cell("1", outputs=list(outputs))])
    notebooks.tidy(notebook)
    return notebook.cells[0].outputs


def shown(data):
    """Make an output out of what a cell displayed."""
    return new_output("display_data", data=data)


def printed(name, text):
    """Make an output out of what a cell printed."""
    return new_output("stream", name=name, text=text)


PLAIN = shown({"text/plain": "1"})
STILL = shown(PICTURE)
TIDIED = {
    "no progress bar": ([shown(BAR), shown(BAR)], []),
    "an explorer's still picture": ([shown(EXPLORER)], [STILL]),
    "a figure in all its forms": ([STILL], [STILL]),
    "one piece around a bar": (
        [printed("stdout", "a"), shown(BAR), printed("stdout", "b")], [printed("stdout", "ab")]
    ),
    "two streams apart": ([printed("stdout", "a"), printed("stderr", "b")],) * 2,
    "anything else": ([PLAIN], [PLAIN]),
}  # fmt: skip


@pytest.mark.parametrize("name", TIDIED)
def test_of_outputs_is_kept_what_a_reader_needs(name):
    outputs, kept = TIDIED[name]
    assert tidied(*map(copy.deepcopy, outputs)) == kept


# --- how tests are run


def test_all_parts_run_whatever_fails(monkeypatch, capsys):
    counts = {"one": (3, 0, 1), "two": (1, 2, 0), "three": (5, 0, 0), "beside": (2, 1, 0)}
    found = {name: (each, 0.4, f"told by {name}") for name, each in counts.items()}
    monkeypatch.setattr(run_tests, "run", lambda name, *_, **__: found[name])
    parts = {"one": [], "two": [], "three": []}, [{"beside": []}]
    times, totals, broken = run_tests.run_all(*parts)
    assert (list(times), totals) == ([*counts, "all"], (11, 3, 1))
    assert broken == ["two", "beside"]
    assert run_tests.main(*parts) == 1
    printed = capsys.readouterr().out
    assert "one 0, two 0, three 0, beside 0, all 0" in printed and "told by beside" in printed
    assert "look above at: two, beside" in printed and "11 passed, 3 failed, 1 skipped" in printed


def test_a_part_is_counted_by_its_report_or_by_its_exit_code(tmp_path):
    good = run_tests.run("good", ["-c", "print(7)"], tmp_path, beside=True)
    assert good[::2] == ((1, 0, 0), "7\n")
    assert run_tests.run("bad", ["-c", "raise SystemExit(3)"], tmp_path)[0] == (0, 1, 0)
    report = tmp_path / "part.xml"
    report.write_text('<a><testsuite tests="9" skipped="2" failures="1" errors="0"/></a>')
    assert run_tests.counted(report, code=1) == (6, 1, 2)
    report.write_text('<a><testsuite tests="9" skipped="2" failures="0" errors="0"/></a>')
    assert run_tests.counted(report, code=3) == (7, 1, 2), "a runner that broke"


# --- which tests a change needs


@pytest.fixture
def planted(monkeypatch, tmp_path):
    """Plant a small course, which the selection reads in place of this one."""
    files = {
        "course_lib/masks.py": '__all__ = ["padding_mask", "causal_mask", "MaskConfig"]',
        "course_lib/exercises/bank/masks.py": 'Exercise("causal_mask", {"nothing": 1})',
        "course_lib/trainer/new_thing.py": "",
        "tests/test_masks.py": "import course_lib.masks",
        "tests/test_masks_in_depth.py": "",
        "tests/test_masking.py": "from course_lib.masks import padding_mask",
        "tests/test_trainer.py": 'import json, timing\nopen("pyproject.toml")',
        "tests/browser/test_masks.py": "",
    }
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(quick_tests, "ROOT", tmp_path)
    monkeypatch.setattr(quick_tests, "MODULES", {CHAPTER: "masks"})


CHAPTER = "notebooks/06_hiding.ipynb"
MASKS = ["tests/test_masks.py", "tests/test_masks_in_depth.py"]


@pytest.mark.parametrize(
    "file, rule, tests",
    [
        ("course_lib/masks.py", "tests of its name", MASKS),
        (CHAPTER, "tests of its name", MASKS),
        ("tests/browser/test_masks.py", "a test file", ["tests/browser/test_masks.py"]),
        ("benchmarks/timing.py", "tests that name it", ["tests/test_trainer.py"]),
        ("pyproject.toml", "tests that name it", ["tests/test_trainer.py"]),
        ("course_lib/trainer/new_thing.py", "tests of its folder", ["tests/test_trainer.py"]),
        ("README.md", "no rule, only what always runs", []),
    ],
)
def test_a_changed_file_says_by_which_rule_its_tests_were_chosen(planted, file, rule, tests):
    assert quick_tests.tests_of(file) == (rule, tests)


@pytest.mark.parametrize(
    "file, exercises",
    [
        ("course_lib/masks.py", "causal_mask or padding_mask"),
        (CHAPTER, "causal_mask or padding_mask"),
        ("course_lib/exercises/bank/masks.py", "causal_mask"),
    ],
)
def test_a_module_brings_its_tests_doctests_exercises_and_chapter(planted, file, exercises):
    parts, beside = quick_tests.select([file])
    doctests = [file] if file.startswith("course_lib") else []
    tests = parts["tests and doctests"]
    assert tests[tests.index("not workbook") + 1 :] == [*doctests, quick_tests.ALWAYS, *MASKS]
    assert beside["exercises"][-3:] == [quick_tests.CHECKS, "-k", exercises]
    assert beside["chapters"][-1] == CHAPTER


def test_the_changed_files_are_the_uncommitted_ones_or_the_last_commits(monkeypatch, tmp_path):
    def git(*arguments):
        user = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *user, *arguments], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(quick_tests, "ROOT", tmp_path)
    git("init")
    for name in ("old.py", "new.py"):
        (tmp_path / name).touch()
        git("add", name)
        git("commit", "-m", name)
    assert quick_tests.changed() == ["new.py"]
    (tmp_path / "old.py").write_text("1")
    (tmp_path / "unknown.py").touch()
    assert quick_tests.changed() == ["old.py", "unknown.py"]
