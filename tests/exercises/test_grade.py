"""A class is graded whatever its code does, and its folders stay as they are."""

import csv
import os
import runpy
import time
from pathlib import Path

import pytest

from course_lib import cli
from course_lib.exercises import sandbox
from course_lib.exercises.check import exercises
from course_lib.exercises.grade import Row, as_csv, as_text, grade, learners
from course_lib.exercises.sandbox import Mark, examine_apart, own_names
from course_lib.exercises.workbook import fresh_module
from course_lib.masks import __all__ as NAMES

HEAD = "import torch\nfrom torch import Tensor\n\n\n"
CAUSAL = """def causal_mask(length, device=None):
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


"""
PADDING = """def padding_mask(ids, pad_id):
    return (ids != pad_id)[:, None, None, :]


"""
FRESH = fresh_module("masks", NAMES)


def files_in(folder: Path) -> dict[str, bytes]:
    """Read every file in a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def hand_in(folder: Path, **modules: str) -> Path:
    """Write a learner's package, and return it."""
    package = folder / "my_lib"
    package.mkdir(parents=True)
    for module, text in modules.items():
        (package / f"{module}.py").write_text(text)
    return package


def make_class(folder: Path) -> None:
    """Hand in what six learners wrote."""
    hand_in(
        folder / "ada", masks=HEAD + CAUSAL + PADDING.replace("!=", "=="), attention="import os"
    )
    hand_in(folder / "bob", masks=HEAD + CAUSAL + "def (", attention=f"{FRESH}\nexit()")
    user = "from my_lib.masks import causal_mask\n\n\ndef sinusoidal_encoding(L, d_model):\n    1\n"
    hand_in(folder / "cy", masks=f"{HEAD}{CAUSAL}\nraise SystemExit", positions=user)
    broken = PADDING.replace("return", "import os; os._exit(3)\n    return")
    hand_in(folder / "dee", masks=f"{HEAD}print('noise')\n{broken}{CAUSAL}")
    (folder / "eve" / "notes").mkdir(parents=True)
    beside = "from helpers import causal_mask\nopen('written', 'w').write('x')\n"
    beside += "import course_lib.masks\npadding_mask = course_lib.masks.padding_mask\n"
    hand_in(folder / "fay" / "work", masks=beside + "causal_mask = causal_mask")
    (folder / "fay" / "work" / "helpers.py").write_text(HEAD + CAUSAL)
    (folder / ".hidden").mkdir()
    (folder / "read me.txt").write_text("no learner")


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Grade a class once; return the folder of the class, that of the tables, and what was told."""
    folder, out, told = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("out"), []
    make_class(folder)
    before = files_in(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        text = grade(folder, out / "new", tell=told.append)
    assert files_in(folder) == before
    assert text == (out / "new" / "grades.txt").read_text(encoding="utf-8")
    return folder, out / "new", told


def rows_of(out: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Read the CSV: each row by learner and exercise."""
    with open(out / "grades.csv", encoding="utf-8-sig", newline="") as lines:
        return {(row["learner"], row["exercise"]): row for row in csv.DictReader(lines)}


@pytest.fixture(scope="module")
def rows(graded):
    """Return the graded rows."""
    return rows_of(graded[1])


# --- a class


def test_every_learner_has_a_row_for_every_exercise_in_order(rows):
    names = ["ada", "bob", "cy", "dee", "eve", "fay/work"]
    assert list(rows) == [(learner, name) for learner in names for name in exercises()]
    assert rows["ada", "causal_mask"] == {
        "learner": "ada",
        "chapter": "06 masks",
        "exercise": "causal_mask",
        "state": "correct",
        "mistake": "",
        "hint": "",
    }


def test_a_mistake_is_named(rows):
    row = rows["ada", "padding_mask"]
    assert row["state"] == "not yet" and row["mistake"] and "This is what comes out" in row["hint"]


def test_what_the_course_wrote_and_what_is_missing_is_no_attempt(rows):
    for learner, name in [("bob", "scaled_dot_product_attention"), ("fay/work", "padding_mask")]:
        assert rows[learner, name]["state"] == "not attempted"
    assert rows["fay/work", "causal_mask"]["state"] == "correct"  # from a file beside
    assert rows["ada", "FeedForward"]["hint"] == "there is no feed_forward.py"
    assert {rows["eve", name]["hint"] for name in exercises()} == {"there is no my_lib"}
    assert rows["cy", "PositionalEncoding"]["state"] == "not attempted"


def test_a_file_that_is_no_python_is_said_with_its_line(rows):
    for name in NAMES:
        assert rows["bob", name]["state"] == "did not run"
        assert rows["bob", name]["hint"].startswith("masks.py, line 9: SyntaxError: ")


def test_a_module_that_ends_the_program_ends_itself_only(rows):
    assert rows["cy", "causal_mask"]["state"] == "did not run"
    assert rows["cy", "padding_mask"]["state"] == "not attempted"  # it is not there
    words = "masks.py, line 10: SystemExit: "  # where it happened, not where it was imported
    assert rows["cy", "sinusoidal_encoding"]["hint"] == rows["cy", "causal_mask"]["hint"] == words


def test_a_definition_that_kills_its_process_does_not_hide_the_next(rows):
    assert NAMES.index("padding_mask") < NAMES.index("causal_mask")
    row = rows["dee", "padding_mask"]
    assert (row["state"], row["hint"]) == ("did not run", "it ended its process with code 3")
    assert rows["dee", "causal_mask"]["state"] == "correct"


def test_the_text_counts_and_lists(graded):
    folder, out, told = graded
    text = (out / "grades.txt").read_text(encoding="utf-8")
    count = len(exercises())
    ada = f"ada: 1 correct, {count - 2} not attempted, 1 not yet"
    assert told[0] == ada and told[4] == f"eve: {count} not attempted" and len(told) == 6
    parts = text.split("\n\n")
    assert len(parts) == 6 and parts[0].splitlines()[0] == ada
    head, first = parts[0].splitlines()[1:3]
    assert head.split() == ["chapter", "exercise", "state", "mistake", "hint"]
    assert head.index("exercise") == first.index(exercises()[0])
    assert "dee" not in parts[3].split("\n", 1)[1]


# --- processes


def test_a_module_that_hangs_is_stopped_with_all_it_started(tmp_path):
    hangs = f"""import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(tmp_path / "started")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
def causal_mask(length, device=None): pass
"""
    package = hand_in(tmp_path, masks=hangs)
    before = time.monotonic()
    marks = examine_apart(package, "masks", NAMES, 10)
    assert time.monotonic() - before < 40
    words = "masks.py did not finish within 10 s"
    assert marks == [
        Mark("padding_mask", "not attempted"),
        Mark("causal_mask", "did not run", hint=words),
    ]
    if os.path.isdir("/proc"):
        for number in (tmp_path / "started").read_text().split():
            status = Path(f"/proc/{number}/status")
            assert not status.exists() or "State:\tZ" in status.read_text()


def test_after_an_exercise_that_hangs_the_rest_gets_a_new_process(tmp_path, monkeypatch):
    runs = {"runs": "masks"}
    right = {name: {"exercise": name, "state": "correct"} for name in "abcd"}
    script = [([runs, right["a"]], "did not finish"), ([runs], "died"), ([runs, right["d"]], "0")]
    asked = []

    def ask(package, module, names, limit):
        asked.append("".join(names))
        return script.pop(0)

    monkeypatch.setattr(sandbox, "_ask", ask)
    package = hand_in(tmp_path, masks="a = b = c = d = e = 1\nfrom course_lib.masks import f")
    marks = examine_apart(package, "masks", list("afbcd"), 5)
    assert asked == ["abcd", "cd", "d"]
    assert marks == [
        Mark("a", "correct"),
        Mark("f", "not attempted"),
        Mark("b", "did not run", hint="it did not finish"),
        Mark("c", "did not run", hint="it died"),
        Mark("d", "correct"),
    ]


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("from course_lib.masks import causal_mask", []),
        ("import torch\nfrom my_lib.attention import other", []),
        ("def causal_mask(): pass", ["causal_mask"]),
        ("causal_mask = padding_mask = 3", ["padding_mask", "causal_mask"]),
        (
            "from course_lib.masks import causal_mask\ncausal_mask = trace(causal_mask)",
            ["causal_mask"],
        ),
        ("from helpers import causal_mask", ["causal_mask"]),
        ("from .helpers import *", NAMES),
        ("if True:\n    def causal_mask(): pass", ["causal_mask"]),
        ("def (", NAMES),
        ("", []),
    ],
)
def test_a_learners_own_names_are_told_from_those_handed_on(text, own):
    assert own_names(text.encode(), NAMES) == own


def test_an_error_is_placed_in_the_learners_file(tmp_path):
    (tmp_path / "masks.py").write_text("import json\n\njson.loads('{')\n")
    with pytest.raises(ValueError) as caught:
        runpy.run_path(str(tmp_path / "masks.py"))
    assert sandbox._said(caught.value, tmp_path).startswith("masks.py, line 3: JSONDecodeError: ")
    assert sandbox._said(OSError("gone\nfor good"), tmp_path) == "OSError: gone"


# --- which folders


def test_a_workbook_its_package_or_a_class_is_found(tmp_path, monkeypatch):
    one = hand_in(tmp_path / "class" / "ada", masks="")
    assert learners(tmp_path / "class" / "ada") == learners(one) == {"ada": one}
    other = tmp_path / "class" / "bob" / "masks.py"
    other.parent.mkdir()
    other.write_text("")
    assert learners(other.parent) == {"bob": other.parent}
    for place in (one.parent, one):
        monkeypatch.chdir(place)
        assert learners(Path(".")) == {"ada": one}
    (one.parent / "kept-1").mkdir()
    hand_in(one.parent / "kept-1", masks="")  # an older one of the same learner
    deep = [hand_in(tmp_path / "class" / "cy" / name, masks="") for name in ("first", "second")]
    assert learners(tmp_path / "class") == {
        "ada": one,
        "bob": other.parent,
        "cy/first": deep[0],
        "cy/second": deep[1],
    }


# --- the tables


def test_a_spreadsheet_gets_no_formula(tmp_path):
    row = Row("=1+1", "06 masks", "causal_mask", "not yet", "", "-inf, ü\u221a")
    (tmp_path / "grades.csv").write_text(as_csv([row]), encoding="utf-8", newline="")
    ((_, found),) = rows_of(tmp_path).items()
    assert found["learner"] == "'=1+1" and found["hint"] == "'-inf, ü√"
    assert "=1+1: 1 not yet" in as_text([row])
    assert (tmp_path / "grades.csv").read_bytes().startswith(b"\xef\xbb\xbf")  # for accents


# --- course grade


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """Stand beside a learner's folder, and let every check be quick."""
    asked = []

    def examine(package, module, names, limit):
        asked.append((package, limit))
        return [Mark(name, "correct") for name in names]

    monkeypatch.setitem(cli.grade.__globals__, "examine_apart", examine)
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path / "ada", masks="")
    return asked


def test_the_command_prints_and_writes_the_table(quick, tmp_path, capsys):
    assert cli.main(["grade", "ada"]) == 0
    out, err = capsys.readouterr()
    line = f"ada: {len(exercises())} correct\n"
    assert out.startswith(line) and err == line
    assert out == (tmp_path / "grades.txt").read_text(encoding="utf-8")
    assert {row["state"] for row in rows_of(tmp_path).values()} == {"correct"}
    assert set(quick) == {(tmp_path / "ada" / "my_lib", 60)}
    assert cli.main(["grade", "ada", "--out", "tables/new", "--limit", "7"]) == 0
    assert rows_of(tmp_path / "tables" / "new") and quick[-1][1] == 7


@pytest.mark.parametrize("name", ["grades.csv", "grades.txt"])
def test_tables_that_are_there_are_not_replaced_unless_asked(quick, tmp_path, capsys, name):
    (tmp_path / name).write_text("with my remarks")
    assert cli.main(["grade", "ada"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"course grade: {name} is there; ") and "--force" in err
    assert (tmp_path / name).read_text() == "with my remarks" and not quick
    assert len(list(tmp_path.iterdir())) == 2
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


def test_ctrl_c_writes_no_table(quick, tmp_path, capsys, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.grade.__globals__, "examine_apart", stop)
    assert cli.main(["grade", "ada"]) == 130
    assert "no table was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["ada"]
