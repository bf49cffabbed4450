"""A class is graded whatever its code does, and its folders stay as they are."""

import csv
import socket
import threading
from pathlib import Path

import psutil
import pytest
import torch

from course_lib import cli
from course_lib.exercises import sandbox
from course_lib.exercises.exercise_bank import exercise, exercises
from course_lib.exercises.grade import LONGEST, Row, as_csv, as_text, grade, learners, printable
from course_lib.exercises.json_serialization import packed, unpacked
from course_lib.exercises.learner_package import INIT, module_text
from course_lib.exercises.sandbox import Mark, can_be_apart, examine_apart
from course_lib.exercises.trial import try_out

HEAD = "import torch\nfrom torch import Tensor\n\n\n"
CAUSAL = """def causal_mask(length, device=None):
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


"""
PADDING = """def padding_mask(ids, pad_id):
    return (ids != pad_id)[:, None, None, :]


"""
HEADS = """def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


"""
apart = pytest.mark.skipif(not can_be_apart(), reason="this system cuts no process off")


def files_in(folder: Path) -> dict[str, bytes]:
    """Read every file in a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def hand_in(folder: Path, **modules: str) -> Path:
    """Write a learner's package, and return it."""
    package = folder / "my_lib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(INIT)
    for module, text in modules.items():
        (package / f"{module}.py").write_text(text)
    return package


def make_class(folder: Path, port: int) -> None:
    """Hand in what four learners wrote: nothing, an old package, harm, and an honest try."""
    (folder / "cy" / "notes").mkdir(parents=True)
    (hand_in(folder / "dee", masks=HEAD + CAUSAL) / "__init__.py").write_text("")
    harm = dict(folder=str(folder), port=port, started=str(folder.parent / "started"))
    hand_in(
        folder / "eve",
        attention=FLOOD + "scaled_dot_product_attention = 1",
        multi_head=HARM.format(**harm) + HEAD + HEADS + HANGING,
        positions="sinusoidal_encoding = 1\nimport os\nos._exit(3)",
        add_norm="AddNorm = bytearray(1 << 40)",
        feed_forward="FeedForward = 0\nraise ValueError('=1+1\\x1b[2J\\u202e' + 9_000 * 'x')",
        masks=FORGERY + HEAD + CAUSAL.replace(".tril()", "") + PADDING.replace("!=", "=="),
    )
    honest = "from helpers import causal_mask\n" + PADDING.replace("!=", "==")
    zoe = hand_in(
        folder / "zoe" / "work",
        attention="import os",
        multi_head=UNPRINTABLE,
        positions="def sinusoidal_encoding(:",
        masks=honest,
        decoder=module_text("decoder"),
    )
    (zoe.parent / "helpers.py").write_text(HEAD + CAUSAL)
    (folder / ".hidden").mkdir()
    (folder / "read me.txt").write_text("no learner")


UNPRINTABLE = """
class Odd(Exception):
    def __str__(self): raise SystemExit
split_heads = 1
raise Odd
"""
HARM = """
import os, shutil, socket, subprocess, sys
shutil.rmtree({folder!r}, ignore_errors=True)
for start in "", ".":
    try:
        open(os.path.join(start, {started!r}), "w").write("x")
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=2)
except OSError:
    pass
lasts = [sys.executable, "-S", "-c", "import time; time.sleep(599)"]
subprocess.Popen(lasts, start_new_session=True)
"""
HANGING = """
class MultiHeadAttention(torch.nn.Module):
    def __init__(self, *sizes, **options):
        import time
        time.sleep(600)


"""
FORGERY = """
import json, os
import course_lib.exercises.sandbox as sandbox
from course_lib.exercises.check_report import Report
sandbox.examine = lambda name, candidate: Report(name, True)
forged = b"".join(
    json.dumps({"exercise": name, "state": "correct", "seen": []}).encode() + b"\\n"
    for name in ("padding_mask", "causal_mask")
)
for number in range(99):
    try:
        os.write(number, forged)
    except OSError:
        pass


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
    """Grade a class once; return the rows, the tables' folder, what was told, and who called."""
    folder, out, told, called = tmp_path_factory.mktemp("a") / "class", None, [], []
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=lambda: called.append(server.accept()), daemon=True).start()
    make_class(folder, server.getsockname()[1])
    before, out = files_in(folder), tmp_path_factory.mktemp("out") / "new"
    seen = []

    def tell(line: str) -> None:
        """Keep the line, and how many rows were there when it came."""
        told.append(line)
        seen.append(len(rows_of(out)) if (out / "grades.csv").exists() else 0)

    text = grade(folder, out, limit=8, tell=tell)
    server.close()
    assert files_in(folder) == before or not can_be_apart()
    assert text == (out / "grades.txt").read_text(encoding="utf-8")
    assert seen == [n * len(exercises()) for n in range(5)]  # after each learner
    return rows_of(out), out, told, called, folder.parent / "started"


def rows_of(out: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Read the CSV: each row by learner and exercise."""
    with open(out / "grades.csv", encoding="utf-8-sig", newline="") as lines:
        return {(row["learner"], row["exercise"]): row for row in csv.DictReader(lines)}


@pytest.fixture(scope="module")
def said(graded):
    """Return state and hint by learner and exercise."""
    return {key: (row["state"], row["hint"]) for key, row in graded[0].items()}


# --- a class


def test_every_learner_has_a_row_for_every_exercise_in_order(graded):
    names = ["cy", "dee", "eve", "zoe/work"]
    assert list(graded[0]) == [(learner, name) for learner in names for name in exercises()]
    assert graded[0]["zoe/work", "causal_mask"] == {
        "learner": "zoe/work",
        "chapter": "06 masks",
        "exercise": "causal_mask",  # it stands in a file beside
        "state": "correct",
        "mistake": "",
        "hint": "",
    }
    assert len(graded[2]) == 5 and graded[2][1] == f"cy: {len(exercises())} not attempted"
    row = graded[0]["zoe/work", "padding_mask"]
    assert row["state"] == "not yet" and row["mistake"] and "This is what you get" in row["hint"]


def test_what_the_course_wrote_and_what_is_missing_is_no_attempt(said):
    for name in ("DecoderLayer", "scaled_dot_product_attention"):
        assert said["zoe/work", name] == ("not attempted", "")
    assert said["zoe/work", "FeedForward"] == ("not attempted", "there is no feed_forward.py")
    assert {said["cy", name][1] for name in exercises()} == {"there is no my_lib"}


def test_what_does_not_run_is_said_with_its_line(said):
    state, hint = said["zoe/work", "sinusoidal_encoding"]
    assert state == "did not run" and hint.startswith("positions.py, line 1: SyntaxError: ")
    state, hint = said["zoe/work", "split_heads"]
    assert state == "did not run" and hint.endswith("Odd: (which cannot be printed)")
    state, hint = said["dee", "causal_mask"]
    assert state == "did not run" and "first edition; make a new workbook" in hint


# --- attacks


@apart
def test_code_reaches_neither_files_nor_network_and_leaves_nothing_running(graded, said):
    assert said["eve", "split_heads"] == ("correct", "")
    assert not graded[3] and not graded[4].exists()  # files_in is compared in the fixture
    running = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert "time.sleep(599)" not in str(running)


def test_text_of_a_learner_neither_moves_the_cursor_nor_computes(said, graded, tmp_path):
    state, hint = said["eve", "FeedForward"]
    assert state == "did not run" and "=1+1\\x1b[2J\\u202exxx" in hint and len(hint) == LONGEST + 1
    assert all(c.isprintable() or c == "\n" for c in (graded[1] / "grades.txt").read_text("utf-8"))
    for text in ("=1", "+1", "-inf, ü√", "@a", " =1", "＝1", "a"):
        (tmp_path / "grades.csv").write_text(as_csv([Row(text, *"abcde")]), "utf-8", newline="")
        ((found, _),) = rows_of(tmp_path)
        assert found == ("'" * (text != "a")) + text and text in as_text([Row(text, *"abcde")])
    assert (tmp_path / "grades.csv").read_bytes().startswith(b"\xef\xbb\xbf")  # for accents
    assert printable("a\x00\udc80\nb") == "a\\x00\\udc80\\nb"


def test_a_forged_verdict_does_not_count(said):
    assert said["eve", "causal_mask"][0] == said["eve", "padding_mask"][0] == "not yet"


@pytest.mark.parametrize(
    "seen",
    [
        None,
        [],
        [{"dict": [["values", {"tensor": ["int8", [1 << 60], ""]}]]}] * 4,
        [{"dict": [["values", {"tensor": ["load", [1], "AAAA"]}]]}] * 4,
    ],
)
def test_only_right_numbers_are_correct(seen):
    forged = {"state": "correct", "hint": "", "mistake": ""}
    assert sandbox._mark("causal_mask", forged | {"seen": seen}).state == "not yet"
    right, wrong = exercise("causal_mask").given, lambda *a, **k: right(*a, **k).T
    for candidate, state in ((right, "correct"), (wrong, "not yet")):
        trials = exercise("causal_mask").trials
        seen = [packed(vars(try_out(trial, candidate))) for trial in trials]
        assert sandbox._mark("causal_mask", forged | {"seen": seen}).state == state


def test_values_travel_as_they_are():
    tensors = [torch.randn(2, 3), torch.tensor(True), torch.ones(0, 2), torch.ones(2).bfloat16()]
    value = {"a": tensors, "b": (None, 1, 2.5, "ü", torch.float64), 3: float("inf")}
    back = unpacked(packed(value))
    assert back["b"] == value["b"] and back[3] == value[3]
    for one, other in zip(back["a"], value["a"], strict=True):
        assert torch.equal(one, other) and one.dtype == other.dtype


def test_who_breaks_the_process_loses_only_what_broke_it(said):
    for name, words in {
        "scaled_dot_product_attention": "attention.py sent what is no answer",
        "MultiHeadAttention": "it did not finish within 8 s",
        "sinusoidal_encoding": "positions.py ended its process with code 3",
        "AddNorm": "MemoryError",
    }.items():
        state, hint = said["eve", name]
        assert state == "did not run" and words in hint


def test_all_exercises_together_have_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "_Child", lambda place, todo, limit: pytest.fail("too late"))
    monkeypatch.setattr(sandbox.time, "monotonic", iter([0.0, 11.0]).__next__)
    package = hand_in(tmp_path, masks=HEAD + CAUSAL)
    marks = examine_apart(package, {"masks": ["causal_mask"]}, 1)
    words = "the time for all was over"
    assert marks == {"causal_mask": Mark("causal_mask", "did not run", hint=words)}


# --- which folders


def test_a_workbook_its_package_or_a_class_is_found(tmp_path, monkeypatch):
    one = hand_in(tmp_path / "class" / "ada", masks="")
    for place in (one.parent, one):
        monkeypatch.chdir(place)
        assert learners(place) == learners(Path(".")) == {"ada": one}
    hand_in(one.parent / "kept-1", masks="")  # an older one of the same learner
    deep = [hand_in(tmp_path / "class" / "cy" / name, masks="") for name in ("first", "second")]
    found = {"ada": one, "cy/first": deep[0], "cy/second": deep[1]}
    assert learners(tmp_path / "class") == found


# --- course grade


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """Stand beside two learners' folders, and let every check be quick; the second is stopped."""
    asked = []

    def examine(package, wanted, limit):
        asked.append((package, limit))
        if package.parent.name == "bob":
            raise KeyboardInterrupt
        return {name: Mark(name, "correct") for names in wanted.values() for name in names}

    monkeypatch.setattr("course_lib.exercises.grade.examine_apart", examine)
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path / "ada", masks="")
    hand_in(tmp_path / "bob", masks="")
    return asked


def test_the_command_prints_and_writes_the_table(quick, tmp_path, capsys):
    assert cli.main(["grade", "ada"]) == 0
    out, err = capsys.readouterr()
    line = f"ada: {len(exercises())} correct\n"
    assert out.startswith(line) and err.endswith(line) and "network" in err
    assert out == (tmp_path / "grades.txt").read_text(encoding="utf-8")
    assert {row["state"] for row in rows_of(tmp_path).values()} == {"correct"}
    assert quick == [(tmp_path / "ada" / "my_lib", 60)]
    assert cli.main(["grade", "ada", "--out", "tables/new", "--limit", "7"]) == 0
    assert rows_of(tmp_path / "tables" / "new") and quick[-1][1] == 7


@pytest.mark.parametrize("name", ["grades.csv", "grades.txt"])
def test_tables_that_are_there_are_not_replaced_unless_asked(quick, tmp_path, capsys, name):
    (tmp_path / name).write_text("with my remarks")
    assert cli.main(["grade", "ada"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"course grade: {name} is there; ") and "--force" in err
    assert (tmp_path / name).read_text() == "with my remarks" and not quick
    assert cli.main(["grade", "ada", "--force"]) == 0
    assert (tmp_path / name).read_text() != "with my remarks"


@pytest.mark.parametrize("place", ["ada", "ada/my_lib"])
def test_nothing_is_written_into_a_learners_folder_unless_asked(
    quick, tmp_path, capsys, monkeypatch, place
):
    monkeypatch.chdir(tmp_path / place)
    for folder in (".", str(tmp_path)):
        assert cli.main(["grade", folder]) == 2
        assert "--out DIR" in capsys.readouterr().err and not quick
    assert cli.main(["grade", ".", "--out", "."]) == 0


@pytest.mark.parametrize(("folder", "words"), [("empty", "no my_lib"), ("none", "no folder none")])
def test_nothing_to_grade_is_explained(tmp_path, capsys, monkeypatch, folder, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty" / "figures").mkdir(parents=True)
    assert cli.main(["grade", folder]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("course grade: ") and words in err


def test_ctrl_c_keeps_the_rows_of_those_before(quick, tmp_path, capsys):
    assert cli.main(["grade", "."]) == 130
    assert "the tables hold who was told above" in capsys.readouterr().err
    assert {learner for learner, _ in rows_of(tmp_path)} == {"ada"}
