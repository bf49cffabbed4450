"""What passes becomes the learner's library, from the running kernel, and nothing is lost."""

import ast
import importlib
import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from workbook_solver import reference_answers

from course_lib.exercises.attempts import LAST, StandIn, attempt
from course_lib.exercises.check import exercise, exercises
from course_lib.exercises.export import Export, export
from course_lib.exercises.export_verification import settle
from course_lib.exercises.learner_cells import NOT_RUN, STILL_STUB
from course_lib.exercises.notebook_builder import Chapter
from course_lib.exercises.workbook import fresh_module

ROOT = Path(__file__).resolve().parents[2]
WORKED = {chapter.module: chapter for chapter in map(Chapter.read, ROOT.glob("notebooks/*.ipynb"))}
START = "#| default_exp masks\n#| export\nimport torch\nfrom torch import Tensor"
CAUSAL = """def causal_mask(length: int, device=None) -> Tensor:
    # a thought of mine
    rows = torch.arange(length, device=device)
    return rows[:, None] >= rows"""
WRONG = CAUSAL.replace(">=", ">")
STUB = CAUSAL.partition("\n")[0] + '\n    """Say."""\n    raise NotImplementedError'
PADDING = """def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, None, :]"""


def cell(source: str, *names: str) -> str:
    """Write an exercise's cell as the workbook has it."""
    return "\n\n".join(["#| export\n" + source, *(f'{n} = attempt("{n}", {n})' for n in names)])


def causal(source: str = CAUSAL) -> str:
    """Write the cell of the causal mask."""
    return cell(source, "causal_mask")


def padding(source: str = PADDING) -> str:
    """Write the cell of the padding mask."""
    return cell(source, "padding_mask")


def tree(source: str, name: str) -> str:
    """Return the syntax tree of a definition."""
    (node,) = [n for n in ast.parse(source).body if getattr(n, "name", "") == name]
    return ast.dump(node)


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Return a fresh ``my_lib`` in the current folder, which can be imported."""
    folder = tmp_path / "my_lib"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for module in ("masks", "attention"):
        names = importlib.import_module(f"course_lib.{module}").__all__
        (folder / f"{module}.py").write_text(fresh_module(module, names))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [n for n in sys.modules if n.split(".")[0] == "my_lib"]:
        del sys.modules[name]


@pytest.fixture
def masks(library):
    """Return the text of the learner's module of masks, and see that nothing lies beside it."""

    def read() -> str:
        assert not list(library.glob("*.part")) and not list(library.glob("*.aside*"))
        return (library / "masks.py").read_text()

    return read


@pytest.fixture(autouse=True)
def nothing_was_attempted():
    """Begin as a kernel begins."""
    LAST.clear()


# --- attempt


def test_a_right_attempt_is_returned_and_shown(capsys):
    def causal_mask(length, device=None):
        return torch_tril(length, device)

    assert attempt("causal_mask", causal_mask) is causal_mask
    out = capsys.readouterr().out
    assert out.startswith("✓ Correct: causal_mask") and "stands in" not in out


def torch_tril(length, device):
    """Make a lower triangle."""
    import torch

    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def test_the_courses_own_stands_in_for_a_wrong_attempt_and_it_is_said(capsys):
    course = exercise("causal_mask").given
    assert attempt("causal_mask", lambda n, device=None: torch_tril(n, device).T) is course
    out = capsys.readouterr().out
    assert out.startswith("✗ Not yet: causal_mask\n")
    assert out.rstrip().endswith("Until yours passes, the course's own `causal_mask` stands in.")


def ends_the_program(length, device=None):
    """Break everything."""
    sys.exit(3)


@pytest.mark.parametrize(
    "candidate", [None, ..., 3, ends_the_program, lambda: 0, type("Odd", (), {}), "causal_mask"]
)
def test_nothing_that_a_learner_writes_raises(candidate, capsys):
    assert attempt("causal_mask", candidate) is exercise("causal_mask").given
    assert "stands in" in capsys.readouterr().out


@pytest.mark.parametrize(
    "given",
    [("casual_mask", None), (None, "causal_mask"), ("causal_mask",), (), ([], {})],
)
def test_a_line_that_was_changed_is_explained(given, capsys):
    assert attempt(*given) in (exercise("causal_mask").given, None, [])
    out = capsys.readouterr().out
    assert "attempt takes two things" in out or "did you mean causal_mask" in out


def test_the_courses_own_is_no_attempt(capsys, library):
    course = exercise("causal_mask").given
    assert attempt("causal_mask", course) is course
    assert capsys.readouterr().out.startswith("○ Not attempted yet: causal_mask\nThis is the cou")
    assert not (library / "progress.json").exists()


# --- export: the whole of each chapter


@pytest.mark.parametrize("module", ["masks", "transformer", "training"])
def test_a_solved_chapter_becomes_a_module_with_the_same_definitions(module, tmp_path):
    (tmp_path / "mine").mkdir()
    result = export(WORKED[module].sources, tmp_path / "mine")
    names = [name for name in exercises() if exercise(name).module == module]
    assert list(result.yours) == names and not result.course and not result.problem
    text = (tmp_path / "mine" / f"{module}.py").read_text()
    course = importlib.import_module(f"course_lib.{module}")
    typed = reference_answers(WORKED[module])
    for name in names:
        assert tree(text, name) == tree(typed[name], name)
    made = {}
    exec(text, made)
    assert made["__all__"] == course.__all__ and made["__doc__"] == course.__doc__
    for name in set(course.__all__) - set(names):  # constants and configurations are given
        assert made[name] is getattr(course, name) and name in result.given
    assert "attempt(" not in text and "check(" not in text


def test_every_character_of_a_definition_stays_in_whatever_form(library, masks):
    odd = CAUSAL.replace(
        "    # a", '    "é → „x“"\n    text = """\n#| no\n\n\n  # %%\n"""\n    # a'
    )
    wrapped = f"@torch.no_grad()\n{PADDING}"
    result = export([START, causal(odd), padding(wrapped)], library)
    assert list(result.yours) == ["padding_mask", "causal_mask"]
    assert wrapped in masks() and f"# %% yours: causal_mask\n{odd}\n" in masks()
    short = "causal_mask = lambda n, device=None: torch.ones(n, n, device=device).tril() > 0"
    export([START, causal(short)], library)
    assert short in masks()


# --- export: which cell


def test_the_last_run_counts(library, masks):
    other = CAUSAL.replace("mine", "somebody else")
    history = [START, causal(WRONG), causal(other), padding(), causal()]
    result = export(history, library)
    assert list(result.yours) == ["padding_mask", "causal_mask"]
    assert (
        CAUSAL in masks()
        and other not in masks()
        and masks().index(PADDING) < masks().index(CAUSAL)
    )
    assert "from course_lib" not in masks()


def test_a_right_one_that_was_overwritten_does_not_count(library, masks):
    result = export([START, causal(), causal(WRONG)], library)
    assert not result.yours and "causal_mask" in result.course and CAUSAL not in masks()


def test_a_cell_that_is_no_python_changed_nothing(library, masks):
    result = export([START, causal(), causal(CAUSAL + "\n  return"), causal("return 1")], library)
    assert list(result.yours) == ["causal_mask"] and CAUSAL in masks()


def test_a_cell_without_its_first_line_counts_if_it_asks_for_the_check(library):
    history = [START, causal().partition("\n")[2], PADDING]
    assert list(export(history, library).yours) == ["causal_mask"]


def test_stubs_are_left_out(library, masks):
    before = (library / "masks.py").read_text()
    result = export([START, causal(STUB), padding()], library)
    assert result.course == {"causal_mask": STILL_STUB}
    assert list(result.yours) == ["padding_mask"]
    assert "from course_lib.masks import causal_mask\n" in masks() != before


def test_two_exercises_in_one_cell_are_two(library, masks):
    both = cell(f"{PADDING}\n\n\n@torch.no_grad()\n{WRONG}", "padding_mask", "causal_mask")
    result = export([START, both], library)
    assert list(result.yours) == ["padding_mask"] and list(result.course) == ["causal_mask"]
    assert PADDING in masks() and WRONG not in masks()
    assert "@" not in masks()  # its decorator went with it
    both = cell(f"{PADDING}\n\n\n{CAUSAL}", "padding_mask", "causal_mask")
    assert list(export([START, both], library).yours) == ["padding_mask", "causal_mask"]
    assert masks().count("def padding_mask") == 1


def test_what_shares_a_line_with_the_question_stays(library, masks):
    typed = CAUSAL.replace("device=device", "device=SIDE or device")
    question = 'causal_mask = attempt("causal_mask", causal_mask)'
    result = export([START, f"#| export\n{typed}\nSIDE = None; {question}"], library, {"SIDE"})
    assert list(result.yours) == ["causal_mask"]
    assert "SIDE = None" in masks() and "attempt" not in masks()


# --- export: what passed, and is held by no cell


def run(*sources: str) -> list[str]:
    """Run cells as the notebook does, one after the other, and return all of them."""
    history, names = [START, STAND_INS, *sources], {}
    for source in history:
        exec(source, names)
    return history


STAND_INS = """from course_lib.exercises import attempt
from course_lib.masks import causal_mask, padding_mask"""
OWN = CAUSAL.replace("causal_mask", "my_mask")
ASK = 'causal_mask = attempt("causal_mask", {})'
UNHELD = "passed, but no cell holds `def causal_mask` together with its attempt line: put both in"


@pytest.mark.parametrize(
    "cells",
    [
        [f"{OWN}\n\n{ASK.format('my_mask')}"],
        [causal(STUB), OWN, ASK.format("my_mask")],
        [causal(WRONG), f"#| export\n{OWN}", "causal_mask = my_mask", ASK.format("causal_mask")],
    ],
)
def test_what_passed_but_stands_apart_is_named(library, cells):
    result = export(run(*cells), library)
    assert result.course["causal_mask"] == f"{UNHELD} one cell"


def test_an_older_one_that_is_taken_is_called_so(library, masks):
    history = run(f"#| export\n{CAUSAL}", ASK.format("causal_mask"))
    assert export(history, library).yours == {"causal_mask": ""} and CAUSAL in masks()
    history = run(causal(), CAUSAL.replace("mine", "later"), ASK.format("causal_mask"))
    result = export(history, library)
    assert result.yours["causal_mask"].startswith("an older one") and CAUSAL in masks()


def test_the_last_that_failed_apart_is_judged(library):
    wrong = WRONG.replace("causal_mask", "my_mask")
    result = export(run(causal(STUB), f"{wrong}\n{ASK.format('my_mask')}"), library)
    assert result.course["causal_mask"] == LAST["causal_mask"][0].hint != ""
    result = export(run(OWN, ASK.format("my_mask"), causal(STUB)), library)
    assert result.course == {"causal_mask": STILL_STUB, "padding_mask": NOT_RUN}


# --- export: what a definition needs


HELPED = CAUSAL.replace("torch.arange(length, device=device)", "places(length, device)")
HELPER = "def places(length, device):\n    return torch.arange(length, device=device)"


def test_a_helper_in_the_cell_comes_along(library, masks):
    typed = f"{HELPER}\n\n\n{HELPED}"
    assert list(export([START, causal(typed)], library, {"places"}).yours) == ["causal_mask"]
    assert typed in masks()


def test_helpers_of_other_exercises_are_found_unless_these_fail_or_differ(library):
    helped, other = padding(f"{HELPER}\n\n\n{PADDING}"), "def places(length, device):\n    return 2"
    result = export([START, helped, causal(HELPED)], library, {"places"})
    assert list(result.yours) == ["padding_mask", "causal_mask"]
    history = [START, helped.replace("return (ids !=", "return (ids =="), causal(HELPED)]
    (library / "masks.py").write_text(fresh_module("masks", ["padding_mask", "causal_mask"]))
    result = export(history, library, {"places"})
    assert not result.yours and "uses `places`" in result.course["causal_mask"]
    uses = PADDING.replace("pad_id)[", "places(pad_id, 0))[")
    history = [START, padding(f"{other}\n\n\n{uses}"), causal(f"{HELPER}\n\n\n{HELPED}")]
    result = export(history, library, {"places"})
    assert list(result.yours) == ["causal_mask"]
    assert "otherwise in another exercise's: rename one" in result.course["padding_mask"]


def test_a_helper_in_another_cell_is_named(library, masks):
    result = export([START, HELPER, causal(HELPED), padding()], library, {"places"})
    assert result.course == {
        "causal_mask": "`causal_mask` uses `places`, which stands in another cell of the notebook: "
        "move it into the cell of `causal_mask`"
    }
    assert list(result.yours) == ["padding_mask"] and "places" not in masks()


@pytest.mark.parametrize(
    ("line", "name", "written"),
    [
        ("import numpy as np", "np", "import numpy as np"),
        ("from my_lib.encoder import (\n    Encoder,\n    EncoderLayer as E,\n)", "E",
         "from my_lib.encoder import EncoderLayer as E"),
    ],
)  # fmt: skip
def test_an_import_in_another_cell_is_to_be_written(library, line, name, written):
    typed = CAUSAL.replace("    return", f"    {name}\n    return")
    result = export([START, line, causal(typed)], library, {name})
    words = f"`causal_mask` uses `{name}`: write `{written}` at the top of this cell"
    assert result.course["causal_mask"] == words


def test_what_only_tries_something_is_left_out_and_said(library, masks, capsys):
    tries = 'x = torch.randn(2, 3); print("try", x)\nfor n in range(3):\n    print(n)\nassert 1'
    tries += "\nunknown(1)\nget_ipython().run_line_magic('timeit', 'causal_mask(3)')"
    typed = f"{tries}\n{HELPER}\n\n\nUNUSED = 3\n\n\n{HELPED}\n\n\n{tries}\n1 / 0"
    result = export([START, causal(typed), padding()], library, {"x", "unknown", "get_ipython"})
    assert list(result.yours) == ["padding_mask", "causal_mask"]
    (held,) = [part for part in masks().split("# %% yours: ") if part.startswith("causal")]
    assert [type(n).__name__ for n in ast.parse(held.partition("\n")[2]).body] == [
        "FunctionDef"
    ] * 2
    said = result.yours["causal_mask"]
    for line in ["x = torch.randn(2, 3)", "print('try', x)", "for n in range(3):", "UNUSED = 3"]:
        assert f"`{line}`" in said
    assert said.startswith("left out, ") and "`1 / 0`" in said and not result.yours["padding_mask"]
    assert capsys.readouterr().out == ""
    assert list(export([START], library).yours) == ["padding_mask", "causal_mask"]


def test_what_definitions_use_is_kept_in_whatever_form(library, masks):
    kept = "STEP = 1\nSTEP += int(torch.tensor(0))\nSIDES = {}\nSIDES['a'] = STEP\n"
    kept += "try:\n    HALF = 0.5\nexcept NameError:\n    HALF = 0.0"
    typed = CAUSAL.replace("(length,", "(length * STEP + int(HALF),")
    typed = f"{kept}\n\n\n{typed}\n\n\ncausal_mask.sides = SIDES\ncausal_mask = (causal_mask)"
    other = padding(PADDING.replace("pad_id)[", "pad_id * STEP)["))
    result = export([START, causal(typed), other], library, {"STEP"})
    assert result.yours == {"padding_mask": "", "causal_mask": ""} and typed in masks()


def test_names_from_a_star_are_no_false_alarm(library):
    typed = CAUSAL.replace("rows[:, None]", "rows[:, None] + floor(0.5)")
    start = f"{START}\nfrom math import *"
    assert list(export([start, causal(typed)], library, {"floor"}).yours) == ["causal_mask"]


@pytest.mark.parametrize("value", ["1 / 0", "exit(3)", "await thing()"])
def test_a_cell_that_breaks_is_named_and_the_others_go_on(library, value, capsys):
    typed = f"print(9)\nSIDE = {value}\n{CAUSAL.replace('None', 'SIDE')}"
    result = export([START, causal(typed), padding()], library)
    assert list(result.yours) == ["padding_mask"]
    assert result.course["causal_mask"].startswith("its cell does not run as a file (")
    assert capsys.readouterr().out == ""  # what a cell prints, it printed when it was run


# --- export: imports


def test_the_last_import_cell_comes_along_without_stand_ins(library, masks):
    start = f"{START}\n\nfrom course_lib.masks import causal_mask\nimport math as m  # mine\nm.e"
    export(
        [START, start, padding(PADDING.replace("pad_id)[", "pad_id + int(m.sin(0)))["))], library
    )
    head = masks().partition("# %% yours")[0]
    assert "import torch\nfrom torch import Tensor\n\nimport math as m  # mine\n" in head
    assert "m.e" not in head and "default_exp" not in head
    assert head.count("course_lib.masks") == 1  # causal_mask, which is not solved


SINE = PADDING.replace("pad_id)[", "pad_id + int(math.sin(0)))[")
FLOOR = CAUSAL.replace("(length,", "(math.floor(length),")


def test_imports_do_not_pile_up_and_none_that_is_used_is_lost(library, masks):
    first, second = (f"import math\nimport torch\n\n\n{typed}" for typed in (SINE, FLOOR))
    texts = []
    for history in ([padding(first), causal(second)], [padding(first)], [causal(second)], []):
        result = export([START, *history], library)
        assert list(result.yours) == ["padding_mask", "causal_mask"]
        texts.append(masks())
        assert masks().count("import math\n") == masks().count("import torch\n") == 1
    assert len(set(texts)) == 1
    export([START, padding()], library)  # which brought the import
    assert masks().count("import math\n") == 1 and FLOOR in masks()
    export([START, causal()], library)
    assert "import math" not in masks()


def test_imports_that_do_not_run_change_nothing(library, masks):
    before = masks()
    result = export([f"{START}\nimport no_such_library", causal()], library)
    assert "no_such_library" in result.problem and "#| default_exp" in result.problem
    assert masks() == before


def test_parts_of_earlier_chapters_are_the_learners(library):
    (library / "attention.py").write_text("LEARNERS = True\n")
    start = f"{START}\nfrom my_lib.attention import LEARNERS"
    assert not export([start, causal()], library).problem
    assert importlib.import_module("my_lib.masks").LEARNERS


# --- export: earlier sessions


def test_what_was_solved_in_an_earlier_session_stays(library, masks):
    export([START, causal(f"{HELPER}\n\n\n{HELPED}")], library)
    for history in ([START], [START, padding(), causal(STUB)]):
        result = export(history, library)
        assert result.yours["causal_mask"] == "from an earlier session"
        assert f"# %% yours: causal_mask\n{HELPER}\n\n\n{HELPED}\n" in masks()
    assert list(export([START], library).yours) == ["padding_mask", "causal_mask"]


def test_a_wrong_one_does_not_replace_what_passed(library, masks):
    export([START, causal()], library)
    result = export([START, causal(WRONG)], library)
    assert result.yours["causal_mask"].startswith("as it was; your last one: ")
    assert CAUSAL in masks() and WRONG not in masks()
    export([START, causal(f"{HELPER}\n\n\n{HELPED}")], library)
    assert HELPED in masks() and CAUSAL not in masks(), "a right one does"


def test_imports_of_an_earlier_session_stay_with_what_needs_them(library, masks):
    typed = PADDING.replace("pad_id)[", "pad_id + int(m.sin(0)))[")
    export([f"{START}\nimport math as m\nimport numpy as np", padding(typed)], library)
    export([f"{START}\nimport math as np", causal()], library)
    assert typed in masks() and "import math as m\n" in masks() and "import numpy" not in masks()


def test_what_was_typed_into_the_file_is_kept(library):
    (library / "masks.py").write_text(f'"""Mine."""\nimport torch\nTensor = "x"\n\n\n{CAUSAL}\n')
    result = export([START, padding()], library)
    assert list(result.yours) == ["padding_mask", "causal_mask"]
    assert CAUSAL in (library / "masks.py").read_text()


def test_a_file_that_is_no_python_is_kept_aside(library):
    (library / "masks.py").write_text("def (")
    for number in (1, 2):
        result = export([START, causal()], library)
        assert f"masks.py.aside-{number}" in result.note
        assert (library / f"masks.py.aside-{number}").read_text() == "def ("
        (library / "masks.py").write_text("def (")


# --- export: what was changed by hand


BACK = "from course_lib.masks import causal_mask"


def test_what_export_wrote_itself_is_not_put_aside(library, masks):
    for history in ([], [causal()], [causal(), padding()], [], [causal(WRONG)]):
        assert export([START, *history], library).note == ""
        masks()


def test_what_was_changed_by_hand_is_put_aside_and_it_is_said(library):
    path = library / "masks.py"
    export([START, causal()], library)
    typed = path.read_text().replace("length", "size") + "\n\ndef further():\n    return 1\n"
    for number in (1, 2):
        path.write_text(typed)
        result = export([START, causal()], library)
        assert (library / f"masks.py.aside-{number}").read_text() == typed
        assert f"kept as masks.py.aside-{number}" in result.note and result.note in repr(result)
        assert "not so here: `causal_mask`, `further`" in result.note
        assert CAUSAL in path.read_text() and export([START], library).note == ""


def test_the_smallest_change_of_a_fresh_file_is_put_aside(library):
    fresh = (library / "masks.py").read_text()
    (library / "masks.py").write_text(fresh + "# a thought\n")
    assert "aside-1" in export([START], library).note
    assert (library / "masks.py.aside-1").read_text() == fresh + "# a thought\n"


def put_back(path: Path) -> None:
    """Do what the workbook's README says, some seconds after the cells were run."""
    path.write_text(path.read_text().replace(CAUSAL, BACK))
    LAST.update({name: (report, when - 9) for name, (report, when) in LAST.items()})


def test_what_was_put_back_by_hand_stays_so_until_its_cell_runs_again(library):
    path = library / "masks.py"
    history = run(causal(), padding())
    assert len(export(history, library).yours) == 2
    put_back(path)
    for _ in range(2):
        result = export(history, library)
        assert list(result.yours) == ["padding_mask"]
        assert result.course["causal_mask"].startswith("put back by hand")
        assert f"{BACK}\n" in path.read_text() and CAUSAL not in path.read_text()
        os.utime(path, (path.stat().st_mtime - 5,) * 2)
    again = run(causal())
    result = export(again, library)
    assert result.yours["causal_mask"].startswith("again: its cell was run after")
    assert CAUSAL in path.read_text()
    assert export(again, library).yours["causal_mask"] == ""


def test_what_was_put_back_stays_so_with_the_stub_in_a_new_kernel(library):
    export(run(causal()), library)
    put_back(library / "masks.py")
    LAST.clear()
    assert export([START], library).course["causal_mask"].startswith("put back by hand")
    os.utime(library / "masks.py", (10**9, 10**9))
    assert export(run(causal(STUB)), library).course["causal_mask"] == STILL_STUB


# --- export: the file, and who imports it


def test_the_next_import_reads_the_new_file(library, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = importlib.import_module("my_lib.masks")
    for number in (7, 8):  # files of one size, and of one second: compiled ones look up to date
        export([START, causal(CAUSAL.replace("rows", f"r_{number}"))], library)
        os.utime(library / "masks.py", (10**9, 10**9))
        again = importlib.import_module("my_lib.masks")
        assert again is not before
        assert f"r_{number}" in again.causal_mask.__code__.co_varnames
        assert again.causal_mask.__module__ == "my_lib.masks"
        assert again.padding_mask is exercise("padding_mask").given
        before = again


def test_a_write_that_breaks_off_leaves_the_old_file(library, masks, monkeypatch):
    before = masks()
    monkeypatch.setattr(os, "replace", lambda *places: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        export([START, causal()], library)
    assert masks() == before


# --- putting together


def test_what_passes_alone_but_breaks_another_is_not_taken():
    class Wary:
        """Find that c never passes, b not beside c, and a not beside b without c."""

        def failing(self, chosen, only=()):
            found = {"c": "wrong"} if "c" in chosen else {}
            found |= {"b": "beside c"} if {"b", "c"} <= set(chosen) else {}
            found |= {"a": "beside b"} if {"a", "b"} <= set(chosen) and "c" not in chosen else {}
            return {name: found[name] for name in only or chosen if name in found}

    chosen, reasons = settle(Wary(), {name: [name.upper()] for name in "abc"})
    assert chosen == {"a": "A"}
    assert reasons == {"b": "with it, beside b", "c": "wrong"}


# --- export: what is said


def test_without_a_folder_nothing_is_written_and_it_is_said(tmp_path):
    result = export([START, causal()], tmp_path / "my_lib")
    assert str(tmp_path) in result.problem and "course workbook" in result.problem
    assert repr(result).startswith("Nothing was written: ") and not list(tmp_path.iterdir())


@pytest.mark.parametrize("history", [[], [causal()], ["#| default_exp cooking\nimport math"]])
def test_a_chapter_that_was_not_run_is_asked_for(library, masks, history):
    before = masks()
    assert "#| default_exp" in export(history, library).problem
    assert masks() == before


def test_the_result_shows_itself(library):
    history = [START, causal(), padding(PADDING.replace("!=", "<") + "  # <b>")]
    result = export(history, library)
    assert repr(result).splitlines()[:2] == [
        "my_lib/masks.py: 1 of 2 are yours",
        "yours: causal_mask",
    ]
    stands_in = StandIn(attempt.__globals__["Report"]("<b>", False, hint="x"))
    assert "&lt;b&gt;" in stands_in._repr_html_() and "<b>" not in stands_in._repr_html_()
    broken = PADDING.replace("pad_id: int", "pad_id=open('<b>')")
    shown = export([START, '"<b>"', padding(broken)], library)
    assert "&lt;b&gt;" in shown._repr_html_() and "<b>" not in shown._repr_html_()
    assert "given by the course: ADAM" in repr(Export("f", given=["ADAM"]))


# --- a real kernel


def test_a_real_kernel_is_read_as_it_runs(library):
    """There is no file of this notebook; what is bound to a name at the end is a stand-in."""
    ready = "from course_lib.exercises import attempt, export_mine"
    sources = [START, ready, causal(WRONG), padding(), padding(PADDING + "("), "export_mine()"]
    sources += [causal(), "export_mine()", "import my_lib.masks\nmy_lib.masks.causal_mask(2)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    where = {"metadata": {"path": str(library.parent)}}
    NotebookClient(notebook, kernel_name="python3", allow_errors=True, resources=where).execute()
    said = ["".join(str(o.get("data", o)) for o in c.outputs) for c in notebook.cells]
    assert "Not yet: causal_mask" in said[2] and "stands in" in said[2] and "text/html" in said[2]
    assert "Correct: padding_mask" in said[3] and "SyntaxError" in said[4]
    assert "1 of 2 are yours" in said[5] and "yours: padding_mask" in said[5]
    assert "2 of 2 are yours" in said[7] and "text/html" in said[7]
    assert "[ True, False]" in said[8]
    assert CAUSAL in (library / "masks.py").read_text()
    assert (library / "progress.json").exists()
