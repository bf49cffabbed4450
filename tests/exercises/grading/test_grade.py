"""Grading a class works whatever the learners' code does, and does not change any folder."""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from course_lib.cli import main as cli
from course_lib.exercises.checking.exercise import exercises
from course_lib.exercises.checking.report import Report
from course_lib.exercises.grading.grade import Row, as_csv, grade, learners, printable
from course_lib.exercises.library import separate_process
from course_lib.exercises.library.fallbacks import COURSE
from course_lib.exercises.library.package import INIT, module_text
from course_lib.exercises.library.separate_process import examine_apart, state_of

HEAD = "import torch\nfrom torch import Tensor\n\n\n"
CAUSAL = """def causal_mask(length, device=None):
    if length < 1:
        raise ValueError(length)
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


"""
PADDING = """def padding_mask(ids, pad_id):
    return (ids != pad_id)[:, None, None, :]


"""
HEADS = """def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


"""


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def hand_in(folder: Path, **modules: str) -> Path:
    """Write a learner's package, and return it."""
    package = folder / "my_lib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(INIT)
    for module, text in modules.items():
        (package / f"{module}.py").write_text(text)
    return package


def make_class(folder: Path) -> None:
    """Hand in the work of two learners: harmful code, and an honest attempt."""
    hand_in(
        folder / "eve",
        attention=FLOOD + "scaled_dot_product_attention = 1",
        multi_head=HEAD + HEADS + HANGING,
        positions="sinusoidal_encoding = 1\nimport os\nos._exit(3)",
        add_norm="AddNorm = bytearray(1 << 40)",
        feed_forward="FeedForward = 0\nraise ValueError('=1+1\\x1b[2J\\u202e' + 9_000 * 'x')",
        masks=HEAD + CAUSAL,
    )
    honest = "from helpers import causal_mask\n" + PADDING.replace("!=", "==")
    zoe = hand_in(
        folder / "zoe" / "work",
        attention="import os",
        positions="def sinusoidal_encoding(:",
        masks=honest,
        decoder=module_text("decoder"),
    )
    (zoe.parent / "helpers.py").write_text(HEAD + CAUSAL)
    hand_in(folder / "_old" / "work")
    (folder / "read me.txt").write_text("no learner")


HANGING = """
class MultiHeadAttention(torch.nn.Module):
    def __init__(self, *sizes, **options):
        import time
        time.sleep(600)


"""
FLOOD = """
import os
for number in range(3, 99):
    try:
        while True:
            os.write(number, b"x" * (1 << 20))
    except OSError:
        pass


"""


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Grade a class once; return the rows and the printed lines."""
    folder, out, told, seen = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("o"), [], []
    make_class(folder)
    before, out, temporary = files_in(folder), out / "new", tmp_path_factory.mktemp("t")

    def tell(line: str) -> None:
        """Keep a line, and count the rows at that time."""
        told.append(line)
        seen.append(len(rows_of(out)) if (out / "grades.csv").exists() else 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        grade(folder, out, limit=5, tell=tell)
    assert not list(temporary.glob("tmp*"))
    assert files_in(folder) == before
    assert seen == [0, 0, *(n * len(exercises()) for n in range(3))]  # after each learner
    return rows_of(out), told


def rows_of(out: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Read the rows of the CSV, by learner and exercise."""
    with open(out / "grades.csv", encoding="utf-8-sig", newline="") as lines:
        return {(row["learner"], row["exercise"]): row for row in csv.DictReader(lines)}


@pytest.fixture(scope="module")
def said(graded):
    """Return the state and the hint, by learner and exercise."""
    return {key: (row["state"], row["hint"]) for key, row in graded[0].items()}


# --- a class


def test_every_learner_has_a_row_for_every_exercise_in_order(graded):
    names = ["eve", "zoe/work"]
    assert list(graded[0]) == [(learner, name) for learner in names for name in exercises()]
    assert graded[0]["zoe/work", "causal_mask"] == {
        "learner": "zoe/work",
        "chapter": "06 masks",
        "exercise": "causal_mask",  # from a file next to the package
        "state": "correct",
        "mistake": "",
        "hint": "",
    }
    hidden, warning, where, *lines = graded[1]
    assert "grades.csv" in where and hidden.endswith("/_old") and "container" in warning
    assert [line.partition(":")[0] for line in lines] == names
    row = graded[0]["zoe/work", "padding_mask"]
    assert row["state"] == "not yet" and row["mistake"] and "This is what you get" in row["hint"]


def test_missing_definitions_and_the_courses_own_do_not_count_as_attempts(said):
    for name in ("DecoderLayer", "scaled_dot_product_attention"):
        assert said["zoe/work", name] == ("not attempted", "")
    state, hint = said["zoe/work", "FeedForward"]
    assert state == "not attempted" and hint.startswith("feed_forward.py is missing")


@pytest.mark.parametrize(
    ("learner", "name", "words"),
    [
        ("zoe/work", "sinusoidal_encoding", "positions.py, line 1: SyntaxError: "),
        ("eve", "scaled_dot_product_attention", "it sent something unreadable"),
        ("eve", "MultiHeadAttention", "it did not finish within 5 s"),
        ("eve", "sinusoidal_encoding", "it exited with code 3"),
        ("eve", "AddNorm", "MemoryError"),
    ],
)
def test_a_module_that_fails_is_reported_and_the_others_are_graded(said, learner, name, words):
    state, hint = said[learner, name]
    assert state == "did not run" and words in hint
    assert said["eve", "split_heads"] == said["eve", "causal_mask"] == ("correct", "")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ((HEAD + CAUSAL).encode("utf-16"), "masks.py is not text in UTF-8"),
        ((HEAD + CAUSAL).encode() + b"#" * (1 << 20), "larger than 1 MB"),
    ],
)
def test_a_file_that_is_not_text_is_not_called_an_answer_that_is_missing(tmp_path, content, words):
    package = hand_in(tmp_path)
    (package / "masks.py").write_bytes(content)
    (report,) = examine_apart(package, {"masks": ["causal_mask"]}, 60).values()
    assert state_of(report) == "did not run" and words in report.hint


# --- attacks


def test_a_learners_text_is_escaped_in_the_table_and_the_terminal(said, tmp_path):
    state, hint = said["eve", "FeedForward"]
    assert state == "did not run" and "=1+1\\x1b[2J\\u202exxx" in hint
    texts = {text: f"'{text}" for text in ("=1", "+1", "-inf, ü√", "@a", " =1", "＝1")}
    texts |= {"a": "a", "x;=1": "x;'=1", 'x; "=1"': 'x;\' "=1"', "x;y": "x;y"}
    for text, safe in texts.items():
        (tmp_path / "grades.csv").write_text(as_csv([Row(text, *"abcde")]), "utf-8", newline="")
        ((found, _),) = rows_of(tmp_path)
        assert found == safe
    assert (tmp_path / "grades.csv").read_bytes().startswith(b"\xef\xbb\xbf")  # for accents
    assert printable("a\x00\udc80\nb") == "a\\x00\\udc80\\nb"


SENT = {name: "" for name in ("mistake", "hint", "kind", "detail", "second")}
SENT |= {"passed": True, "attempted": True, "stages": []}


@pytest.mark.parametrize(
    ("sent", "state"),
    [
        (SENT | {"hint": ["a"], "mistake": 3}, "correct"),
        (SENT | {"stages": [{}]}, "did not run"),
        ([SENT], "did not run"),
    ],
)
def test_any_line_becomes_a_report_of_plain_texts(sent, state):
    report = separate_process._received("causal_mask", json.dumps(sent).encode())
    assert state_of(report) == state
    assert {type(text) for text in (report.hint, report.second, report.mistake or "")} == {str}


def test_all_exercises_together_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(separate_process, "_run", lambda *given: pytest.fail("too late"))
    monkeypatch.setattr(separate_process.time, "monotonic", iter([0.0, 11.0]).__next__)
    package = hand_in(tmp_path, masks=HEAD + CAUSAL)
    (report,) = examine_apart(package, {"masks": ["causal_mask"]}, 1).values()
    late = "the time limit for all exercises was reached"
    assert (state_of(report), report.hint) == ("did not run", late)


# --- which folders


def test_a_workbook_its_package_or_a_class_is_found(tmp_path, monkeypatch):
    one = hand_in(tmp_path / "class" / "ada", masks="")
    for place in (one.parent, one):
        monkeypatch.chdir(place)
        assert learners(place) == learners(Path(".")) == {"ada": one}
    hand_in(one.parent / "kept-1", masks="")  # an older package of the same learner
    cy = tmp_path / "class" / "my_library"
    deep = [hand_in(cy / name, masks="") for name in ("first", "second")]
    packages = {"ada": one, "my_library/first": deep[0], "my_library/second": deep[1]}
    assert learners(tmp_path / "class") == packages


def test_a_class_folder_that_links_to_itself_lists_each_learner_once(tmp_path):
    one = hand_in(tmp_path / "class" / "ada", masks="")
    for name, target in (("loop", "."), ("up", "..")):
        (tmp_path / "class" / name).symlink_to(target)
    assert learners(tmp_path / "class") == {"ada": one, "loop": None, "up": None}


# --- course check


def test_one_saved_answer_is_checked_from_a_terminal(tmp_path, monkeypatch, capsys):
    hand_in(tmp_path, masks=HEAD + CAUSAL.replace("tril", "triu") + PADDING)
    entry = {"padding_mask": {"state": "not yet", "mistake": ["x"]}}
    (tmp_path / "my_lib" / "progress.json").write_text(json.dumps(entry))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "causal_mask"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("✗ Not yet: causal_mask\n") and "upper triangle" in out
    assert cli.main(["check", "padding_mask", "--json", "--folder", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    stages, hint, after = (found.pop(key) for key in ("stages", "hint", "after"))
    assert stages[0] == {"name": "real tokens", "core": True, "held": True, "wrong": False}
    assert found == {
        "name": "padding_mask",
        "state": "correct",
        "passed": True,
        "complete": False,
        "attempted": True,
        "kind": "property",
        "mistake": None,
        "in_the_chapter": {"state": "not yet", "mistake": None, "means": None},
        "detail": "padding_mask(torch.ones(3), 0): raises IndexError, expected raises ValueError",
        "second": "",
    }
    assert hint.endswith("the docstring promises a ValueError.")
    assert after.startswith("`padding_mask` is done: 1 of ")


def test_a_pipe_with_another_encoding_gets_the_same_answer(tmp_path):
    hand_in(tmp_path, masks="")
    command = [sys.executable, "-m", "course_lib.cli", "progress", "--all"]
    chosen = {"PYTHONPATH": str(COURSE.parent), "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | chosen, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert " Chapter 06 · masks ".encode("cp1252") in done.stdout  # behind a question mark


def test_a_check_that_cannot_run_is_explained(capsys):
    assert cli.main(["check", "causal_mask", "--folder", "empty"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert re.search("no my_lib in empty; `.*course learn", err)


# --- course grade


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """Work next to two learners' folders, with fast checks; the second check is interrupted."""
    asked = []

    def examine(package, wanted, limit):
        asked.append((package, limit))
        if package.parent.name == "bob":
            raise KeyboardInterrupt
        return {name: Report(name, True) for names in wanted.values() for name in names}

    monkeypatch.setattr("course_lib.exercises.grading.grade.examine_apart", examine)
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path / "ada", masks="")
    hand_in(tmp_path / "bob", masks="")
    return asked


def test_the_command_writes_the_table_and_prints_a_line_for_each_learner(quick, tmp_path, capsys):
    assert cli.main(["grade", "ada"]) == 0
    out, err = capsys.readouterr()
    assert out.endswith(f"these learners:\nada: {len(exercises())} correct\n") and err == ""
    assert "container" in out and "grades.csv contains" in out
    assert {row["state"] for row in rows_of(tmp_path).values()} == {"correct"}
    assert quick == [(tmp_path / "ada" / "my_lib", 60)]
    assert cli.main(["grade", "ada", "--out", "tables/new", "--limit", "7"]) == 0
    assert rows_of(tmp_path / "tables" / "new") and quick[-1][1] == 7


def test_an_existing_table_is_not_replaced_without_force(quick, tmp_path, capsys):
    table = tmp_path / "grades.csv"
    table.write_text("with my remarks")
    assert cli.main(["grade", "ada"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "--force" in err
    assert err.startswith("course grade: grades.csv already exists; ")
    assert table.read_text() == "with my remarks" and not quick
    assert cli.main(["grade", "ada", "--force"]) == 0
    assert table.read_text() != "with my remarks"


def test_no_file_is_written_into_a_learners_folder_unless_requested(quick, capsys, monkeypatch):
    monkeypatch.chdir("ada/my_lib")
    assert cli.main(["grade", "."]) == 2
    assert "--out DIR" in capsys.readouterr().err and not quick
    assert cli.main(["grade", ".", "--out", "."]) == 0


def test_names_of_folders_are_escaped_where_they_are_printed(quick, tmp_path, capsys):
    for name in ("a\nb: 9 correct", "a\u202eb", "_\x1b[2J"):
        hand_in(tmp_path / "class" / name, masks="")
    assert cli.main(["grade", "class"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(r"class/_\x1b[2J")
    assert [line.rpartition(": ")[0] for line in lines[3:]] == [r"a\nb: 9 correct", r"a\u202eb"]


def test_a_folder_with_nothing_to_grade_is_explained(tmp_path, capsys):
    assert cli.main(["grade", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("course grade: ") and "no my_lib" in err


def test_ctrl_c_keeps_the_finished_rows(quick, tmp_path, capsys):
    assert cli.main(["grade", "."]) == 130
    assert capsys.readouterr().err == "\ncourse grade: stopped\n"
    assert {learner for learner, _ in rows_of(tmp_path)} == {"ada"}
