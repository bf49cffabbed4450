"""A workbook contains the chapters without answers, and it keeps the learner's work."""

import ast
import json
import os
import platform
import re
import shlex
import subprocess
from itertools import count
from pathlib import Path
from textwrap import indent

import nbformat
import pytest
from workbook_solver import MODULES, WORKED, reference_answers

from course_lib.cli import main as cli
from course_lib.exercises import exercises
from course_lib.exercises.checking.exercise import Exercise, known_mistakes
from course_lib.exercises.checking.report import Report
from course_lib.exercises.library import stubs
from course_lib.exercises.library.progress import note
from course_lib.exercises.workbook import workbook_folder as workbook
from course_lib.exercises.workbook.notebook_builder import (
    FOLDED,
    Chapter,
    Edition,
    fenced,
    is_marked,
    source_of,
)
from course_lib.exercises.workbook.workbook_folder import (
    copy_chapters,
    fill,
    make_workbook,
)
from notebooks import METADATA

ANSWERS = {n: a for chapter in WORKED.values() for n, a in reference_answers(chapter).items()}

worked_chapter = pytest.mark.parametrize("worked", WORKED.values(), ids=WORKED)


def cell(name: str, source: str, kind: str = "code", **metadata) -> dict:
    """Make an executed cell of a completed chapter."""
    ran = {"outputs": [{"output_type": "stream", "name": "stdout", "text": ["4\n"]}]}
    ran |= {"execution_count": 1}
    base = {"id": name, "cell_type": kind, "metadata": metadata, "source": source}
    return base | (ran if kind == "code" else {})


FRONT = (
    cell("title", "# 1 · Small\n\n> Why? (Paper §3.)", "markdown"),
    cell("box", "![a][01_small.svg]\n\n*You build* `double`.", "markdown"),
    cell("first", "#| default_exp masks\n#| export\nimport math"),
    cell("second", "from course_lib.attention import LIMIT\nfrom course_lib.viz import show"),
)
DOUBLE = '#| export\ndef double(x):\n    """Add it to itself."""\n    return x + x'


def notebook(*cells: dict) -> dict:
    """Make a completed chapter."""
    metadata = {**METADATA, "authors": []}
    return {"cells": [*FRONT, *cells], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def learned(
    *cells: dict, solutions: bool = True, hints=("a push",), repository: str = ""
) -> dict[str, dict]:
    """Return the cells of the learner's edition by their ids."""
    tasks = {"double": Exercise("double", minutes=1, core={}, hints=hints)}
    edition = Edition(tasks, frozenset({"masks", "attention"}), solutions, repository)
    made = edition.notebook(Chapter("01_small.ipynb", notebook(*cells)))
    return {c["id"]: {**c, "source": source_of(c)} for c in made["cells"]}


def test_a_side_trip_runs_in_the_workbook_and_exports_to_its_chapters_module(tmp_path, monkeypatch):
    guard = "try:\n    import course_lib\nexcept ModuleNotFoundError:\n    print('Install it')"
    setup = cell("setup", f"{guard}\n\nfrom course_lib.attention import LIMIT", **FOLDED)
    text = cell("text", "Add.", "markdown")
    task = cell("task", DOUBLE.replace("export", "export masks"))
    page = {**notebook(), "cells": [FRONT[0], setup, text, task]}
    trip = Chapter("side_trips/01_twice.ipynb", page)
    assert (trip.module, trip.exported) == ("masks", ["double"])
    tasks = {"double": Exercise("double", minutes=1, core={})}
    made = Edition(tasks, frozenset({"masks", "attention"})).notebook(trip)["cells"]
    found = {c["id"]: source_of(c) for c in made}
    assert list(found)[:4] == ["at-the-root", "title", "setup", "stand-ins"]
    assert all(made[n]["metadata"] == FOLDED for n in (0, 2, 3))
    assert "    import course_lib\n" in found["setup"] and "from my_lib.attention" in found["setup"]
    assert "from course_lib.masks import double" in found["stand-ins"]
    assert found["task"].endswith('double = attempt("double", double)')
    assert "my_lib/masks.py" in found["into-your-library"] and found["export-mine"]
    (tmp_path / "side_trips").mkdir()
    monkeypatch.chdir(tmp_path / "side_trips")
    for _ in range(2):
        exec(found["at-the-root"], {})
        assert Path.cwd() == tmp_path
    single = Edition(tasks, frozenset()).notebook(trip)["cells"]
    assert single[0]["id"] == "title", "a downloaded side trip stands alone"


# --- stubs: source surgery


FUNCTION = '''# above
@cache  # why
def f(x: int, *,  y = "a,b" ) -> int:
    """Say it.

      With an indent.
    """
BODY

# below
LAST = 1'''
CLASS = '''class f(nn.Module):
    """A thing."""

    size: int = 3  # kept

    def __init__(
        self,
    ):
BODY

    # about width
    @property
    def width(self) -> int:
        """Say how wide."""
BODY'''
BODY = """
    # a thought
    @wraps
    def inner():
        return 1
    # in between

    return 2  # said
    # and behind"""


@pytest.mark.parametrize(("text", "margin"), [(FUNCTION, ""), (CLASS, "    ")])
def test_a_stub_keeps_everything_but_the_bodies(text, margin):
    source = text.replace("BODY", indent(BODY, margin))
    assert stubs.stub(source, ["f"]) == text.replace("BODY", f"{margin}    {stubs.STUB}")
    assert stubs.stub(source, ["g"]) == source  # not chosen, so not changed


def test_single_methods_of_a_class_can_become_stubs():
    written, last = indent(BODY, "    "), CLASS.rindex("BODY")
    source = CLASS.replace("BODY", written)
    stubbed = CLASS[:last].replace("BODY", written) + f"        {stubs.STUB}"
    assert stubs.stub(source, ["f.width"]) == stubbed
    assert stubs.stub(source, ["f.height", "g.width"]) == source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('my_guess = "fünf"  # a share', "my_guess = ...  # a share"),
        ("my_rows = [\n    1,  # no\n    2,\n]", "my_rows = ..."),
        ("width = 7\nmyth = 3\nmy_list[0] = 4", "width = 7\nmyth = 3\nmy_list[0] = 4"),
        ("def my_test(f):\n    assert f(1)", f"def my_test(f):\n    {stubs.STUB}"),
    ],
)
def test_only_answers_are_replaced_by_dots(source, expected):
    assert stubs.without_answers(source) == expected


IMPORTS = """from course_lib.attention import (
    course_lib_name,
)
from course_lib.attention_maps import draw
from course_lib import interop
from .attention import other
def f():
    from course_lib.attention import late_course_lib
print("from course_lib.attention import text")"""


def test_imports_of_the_library_become_imports_of_my_lib():
    after = stubs.from_package(IMPORTS, ["attention"], "my_lib").split("\n")
    changed = {n: line for n, line in enumerate(after) if line != IMPORTS.split("\n")[n]}
    assert changed == {
        0: "from my_lib.attention import (",
        7: "    from my_lib.attention import late_course_lib",
    }
    for line in ("import course_lib.masks", "from course_lib import masks as m"):
        with pytest.raises(ValueError, match=line):  # it would remain in the course's edition
            stubs.from_package(line, ["masks"], "my_lib")


# --- one small chapter


def test_an_exercise_is_a_stub_an_attempt_and_its_help():
    cells = learned(cell("task", DOUBLE), hints=("a push", "a *shove*"))
    assert cells["task"]["source"] == (
        '#| export\ndef double(x):\n    """Add it to itself."""\n    raise NotImplementedError\n\n'
        'double = attempt("double", double)'
    )
    assert list(cells)[list(cells).index("task") + 1] == "task-help"
    assert cells["task-help"]["cell_type"] == "markdown"
    assert cells["task-help"]["source"] == (
        "<details><summary>Hint</summary>\n\na push\n\n"
        "<details><summary>A plainer hint</summary>\n\na *shove*\n\n</details>\n\n</details>\n\n"
        "<details><summary>Solution</summary>\n\n```python\n    return x + x\n```\n\n</details>"
    )


def test_checks_of_an_exercise_are_removed_and_so_are_cells_with_only_a_check():
    others = 'print(double(2))\ncheck("double", wrong_double)\nshow(check("double", double))'
    cells = learned(
        cell("task", DOUBLE),
        cell("alone", '# is it right?\ncheck("double", double)'),
        cell("last", f'{others}\n\ncheck("double", double)'),
        cell("comment", "# nothing to run"),
    )
    assert "alone" not in cells
    assert cells["last"]["source"] == others
    assert cells["comment"]["source"] == "# nothing to run"


def test_names_are_imported_before_they_are_written_and_the_last_cell_exports():
    cells = learned(cell("say", "Words.", "markdown"), cell("task", DOUBLE), cell("b", "K = 1"))
    assert list(cells)[:5] == ["title", "box", "first", "second", "stand-ins"]
    lines = cells["stand-ins"]["source"].split("\n")
    assert lines[0] == "import math" and "from torch.nn import functional as F" in lines
    assert "from course_lib.exercises import attempt, export_mine" in lines
    assert lines[-1] == "from course_lib.masks import double"
    *_, said, last = cells.values()
    assert last["source"] == "export_mine()" and "`my_lib/masks.py`" in said["source"]
    without = learned(cell("a", "x = 1"))  # the chapter exports nothing
    assert "export-mine" not in without and "stand-ins" not in without
    constant = learned(cell("b", "#| export\nK = 1"))  # nothing to write, but a name to import
    assert "stand-ins" in constant and "export-mine" not in constant


EXERCISE = """#| exercise
from course_lib.masks import double
my_guess = 4
seen = [1]
def my_test(f):
    assert f(2) == 4
predict("doubled", my_guess)"""
SOLVED = fenced(EXERCISE.removeprefix("#| exercise\n"))


def test_other_exercises_lose_only_their_answers():
    cells = learned(cell("task", EXERCISE))
    blank = EXERCISE.replace("my_guess = 4", "my_guess = ...").replace("course_lib", "my_lib")
    assert cells["task"]["source"] == blank.replace("assert f(2) == 4", stubs.STUB)
    assert cells["task-help"]["source"] == (
        f"<details><summary>Solution</summary>\n\n{SOLVED}\n\n</details>"
    )
    assert "task-help" not in learned(cell("task", EXERCISE), solutions=False)


def test_the_answer_and_its_explanation_make_one_solution_that_can_be_left_out():
    words = "<details><summary>Solution</summary>\n\nBecause.\n\n</details>"
    rest = "**2. Why?**\n\n<details><summary>A table</summary>\n\nb\n\n</details>"
    cells = [cell("told", f"{words}\n\n{rest}", "markdown"), cell("only", words, "markdown")]
    with_it = learned(cell("task", EXERCISE), *cells)
    assert "task-help" not in with_it
    both = f"{words}\n\n{rest}".replace("Because", f"{SOLVED}\n\nBecause")
    assert with_it["told"]["source"] == both
    without = learned(cell("task", EXERCISE), *cells, solutions=False)
    assert without["told"]["source"].strip() == rest and "only" not in without


def test_the_first_cell_names_the_repository_if_it_is_known():
    place = 'print("%pip install /path/to/the/course")'
    assert learned(cell("install", place))["install"]["source"] == place
    named = learned(cell("install", place), repository="https://example.org/course")
    assert named["install"]["source"] == place.replace("/path/to/the/", "git+https://example.org/")


WORKED_GUESS = """guess(
    "Is it twice "
    "as large?",
    "No, because of the limit.",
    choices=["yes", "no"],
)"""


def test_a_guess_loses_only_its_explanation_and_is_not_hidden():
    hidden = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
    short = 'guess("Why?", "Because of the limit.")'
    cells = learned(cell("a", WORKED_GUESS, **hidden), cell("b", short, **hidden))
    assert cells["a"]["source"] == WORKED_GUESS.replace('    "No, because of the limit.",\n', "")
    assert cells["b"]["source"] == 'guess("Why?")'
    assert cells["a"]["metadata"] == cells["b"]["metadata"] == {}


# --- the folder


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Replace the real course with one small chapter, and return its folder."""
    course = tmp_path / "course"
    (course / "notebooks").mkdir(parents=True)
    text = json.dumps(notebook(cell("task", DOUBLE.replace("double", "causal_mask"))))
    (course / "notebooks" / "01_small.ipynb").write_text(text, encoding="utf-8")
    monkeypatch.setattr(workbook, "COURSE", course)
    monkeypatch.chdir(tmp_path)
    return course


def files_in(folder: Path) -> dict[str, str]:
    """Read the files of a folder, by name."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in found}


def test_a_workbook_contains_only_the_files_that_it_needs(course):
    assert make_workbook(Path("new/workbook")) == []
    assert set(files_in(Path("new/workbook"))) == {
        "01_small.ipynb",
        "AGENTS.md",
        "README.md",
        "my_lib/__init__.py",
        "my_lib/masks.py",
        "my_lib/tasks/__init__.py",
        "my_lib/tasks/numbers.py",
    }


def test_copied_chapters_keep_changes_and_are_restored_if_they_are_missing(course):
    first = course / "notebooks" / "01_small.ipynb"
    (course / "notebooks" / "02_big.ipynb").write_bytes(first.read_bytes())
    copy_chapters(Path("lab"))
    chapters = Path("lab/notebooks")
    (chapters / first.name).write_text("mine")
    (chapters / "02_big.ipynb").unlink()
    copy_chapters(Path("lab"))
    assert (chapters / "02_big.ipynb").exists() and (chapters / first.name).read_text() == "mine"
    Path("other").mkdir()
    Path("other/page.txt").write_text("not the course's")
    with pytest.raises(ValueError, match="not empty"):
        copy_chapters(Path("other"))


def test_the_course_itself_is_never_overwritten(course, monkeypatch):
    before = files_in(course)
    monkeypatch.chdir(course / "notebooks")
    for folder in (course, Path(".."), Path("../notebooks")):
        with pytest.raises(ValueError, match="contains the course itself"):
            make_workbook(folder, force=True)
    assert files_in(course) == before


def test_the_command_writes_a_workbook_with_or_without_solutions_and_replaces_none(course, capsys):
    assert cli.main(["workbook", "my book"]) == 0
    out, err = capsys.readouterr()
    assert f" {Path('my book').resolve()}\n" in out and out.endswith("course learn 'my book'\n")
    assert err == ""
    page = Path("my book/01_small.ipynb").read_text("utf-8")
    assert "<summary>Hint" in page and "return x + x" in page
    assert cli.main(["workbook", "book", "--no-solutions"]) == 0
    page = Path("book/01_small.ipynb").read_text("utf-8")
    assert "<summary>Hint" in page and "return x + x" not in page
    capsys.readouterr()
    assert cli.main(["workbook", "book"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert (
        err.startswith("course workbook: book is not empty; choose another")
        and "course workbook book --force`" in err
    )


def test_the_command_says_which_files_it_kept_and_how_to_restore_them(course, capsys):
    cli.main(["workbook", "my book"])
    mine = Path("my book/my_lib/masks.py")
    mine.write_text("mine")
    capsys.readouterr()
    assert cli.main(["workbook", "my book", "--force"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and mine.read_text() != "mine"
    (command,) = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    subprocess.run(command, shell=True, check=True)
    assert mine.read_text() == "mine"


# --- files that were there before


WRITTEN = {"page.ipynb": b"page", "my_lib/masks.py": b"stub"}


@pytest.fixture
def folder(tmp_path):
    """Return a filled folder in which one file has changed since."""
    folder = tmp_path / "a"
    folder.mkdir()  # an empty folder is accepted
    assert fill(folder, WRITTEN) == []
    (folder / "my_lib" / "masks.py").write_text("mine 1")
    return folder


def test_force_moves_only_changed_files_every_time(folder):
    (folder / "notes.ipynb").write_text("notes")
    kept = fill(folder, WRITTEN, force=True)
    (folder / "my_lib" / "masks.py").write_text("mine 2")
    (folder / "my_lib" / "masks.py.77.part").write_text("from a process that was killed")
    kept += fill(folder, WRITTEN, force=True)
    assert not list(folder.rglob("*.part"))
    assert kept == [folder / f"kept-{n}" / "my_lib" / "masks.py" for n in (1, 2)]
    assert [path.read_text() for path in kept] == ["mine 1", "mine 2"]
    after = files_in(folder)
    assert (after["page.ipynb"], after["my_lib/masks.py"]) == ("page", "stub")
    assert after["notes.ipynb"] == "notes"


def test_an_interruption_at_any_moment_loses_no_file(tmp_path, monkeypatch):
    names = ("a", "deep/b", "deep/er/c")
    mine = {name: f"mine {name}" for name in names[1:]}
    for moment in count():
        folder, steps = tmp_path / str(moment), count()
        fill(folder, {name: b"first" for name in names})
        for name, text in mine.items():
            (folder / name).write_text(text)

        def unless_stopped(*places, steps=steps, moment=moment, really=os.replace):
            if next(steps) == moment:
                raise KeyboardInterrupt
            return really(*places)

        monkeypatch.setattr(os, "replace", unless_stopped)
        try:
            fill(folder, {name: b"second" for name in names}, force=True)
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            monkeypatch.undo()
        assert set(mine.values()) <= set(files_in(folder).values())
        fill(folder, {name: b"third" for name in names}, force=True)  # it also works a second time
        assert set(mine.values()) <= set(files_in(folder).values())
        assert {(folder / name).read_text() for name in names} == {"third"}
    assert moment == 3 + 3  # each file is moved and written


# --- the course's own chapters


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a workbook from the course's real chapters."""
    folder = tmp_path_factory.mktemp("made") / "workbook"
    assert make_workbook(folder) == []
    return folder


def cells_of(path: Path) -> list[dict]:
    """Read the cells of a workbook's chapter, each source as one string."""
    read = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**c, "source": source_of(c)} for c in read]


@worked_chapter
def test_a_chapter_of_the_workbook_is_valid_and_imports_the_learners_modules(made, worked):
    read = nbformat.read(made / worked.file, as_version=4)
    nbformat.validate(read)
    language = METADATA["language_info"] | {"version": platform.python_version()}
    assert read.metadata == METADATA | {"language_info": language}
    names = [c.id for c in read.cells]
    assert len(set(names)) == len(names)
    for c in read.cells:
        assert c.cell_type == "markdown" or (c.outputs, c.execution_count) == ([], None)
        if c.cell_type == "code" and c.id != "stand-ins":
            assert not re.search(rf"course_lib\.({'|'.join(MODULES)})\b", c.source), c.source


def runs_of_words(text: str, length: int) -> set[tuple[str, ...]]:
    """Return every sequence of this many words in a text."""
    words = re.findall(r"[\w.]*\w", text.lower())
    return set(zip(*(words[start:] for start in range(length)), strict=False))


@worked_chapter
def test_no_answer_is_near_its_guess_or_in_the_file(made, worked):
    page = [source_of(c) for c in cells_of(made / worked.file)]
    places = [n for n, source in enumerate(page) if stubs.guess_call(source)]
    calls = [call for call in map(stubs.guess_call, worked.sources) if call]
    for place, call in zip(places, calls, strict=True):
        question, answer = (ast.literal_eval(argument) for argument in call.args)
        assert not runs_of_words(answer, 8) & runs_of_words("\n".join(page), 8)
        near = "\n".join([page[place - 1], *page[place + 1 : place + 4]])  # about a screen
        assert not runs_of_words(answer, 4) & runs_of_words(near, 4), question
        numbers = set(re.findall(r"\d+\.\d+|\^\{\d+\}|½|¼|\(\d, \d\)", answer))
        assert not [n for n in numbers if n in near and n not in question], question


@worked_chapter
def test_every_exercise_has_a_blank(made, worked):
    for c in cells_of(made / worked.file):
        if is_marked(c["source"], "exercise"):
            assert re.search(r"= \.\.\.|raise NotImplementedError", c["source"]), c["source"]


def test_exercises_are_listed_in_the_order_of_their_chapters():
    pages = [name for worked in WORKED.values() for name in worked.exported if name in exercises()]
    assert exercises() == pages  # the report of one names the next


def test_a_workbook_without_solutions_contains_no_answer(tmp_path):
    make_workbook(tmp_path, solutions=False)
    for worked in WORKED.values():
        text = "\n\n".join(c["source"] for c in cells_of(tmp_path / worked.file))
        assert "<summary>Solution" not in text
        assert text.count("<details>") == text.count("</details>")
        for name in set(worked.exported) & set(exercises()):
            assert stubs.solution(ANSWERS[name], name) not in text, name
    shy = (tmp_path / "README.md").read_text("utf-8")
    assert "{" not in shy and "solution" not in shy


def test_the_readme_and_the_instructions_for_assistants_are_true(made, monkeypatch, capsys):
    readme, agents = ((made / name).read_text("utf-8") for name in ("README.md", "AGENTS.md"))
    assert "{" not in readme + agents and "solution" in readme
    commands = re.findall(r"`course (\w+.*?)`", readme + agents)
    assert {words.split()[0] for words in commands} == {"check", "learn", "progress", "workbook"}
    for words in commands:
        assert cli.parser().parse_args(shlex.split(words))
    links = re.findall(r"\]\((.+?)\)", readme)
    assert links[0] == "00_start_here.ipynb" and all((made / link).is_file() for link in links)
    assert 'export_mine(without="causal_mask")' in readme
    monkeypatch.chdir(made)
    mistake = known_mistakes("causal_mask")[0]
    note(Report("causal_mask", False, mistake.name))
    (command,) = re.findall(r"^ *course (check .+)$", agents, re.M)
    assert cli.main(command.split()) == 1
    found = json.loads(capsys.readouterr().out)
    meaning = {"state": "not yet", "mistake": mistake.name, "means": mistake.sentence}
    assert found["in_the_chapter"] == meaning and found["state"] == "not attempted"
    for name in ("in_the_chapter", "hint", "stages", *meaning):
        assert f"`{name}`" in agents and (name in found or name in meaning)
