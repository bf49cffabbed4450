"""A workbook holds everything of the chapters but the answers, and loses nothing of a learner's."""

import ast
import difflib
import json
import os
import re
import subprocess
import sys
from itertools import count
from pathlib import Path

import nbformat
import pytest
from workbook_solver import reference_answers, tasks

from course_lib import cli
from course_lib.exercises import exercises, stubs, workbook
from course_lib.exercises import safe_folder as folders
from course_lib.exercises.check_report import Report
from course_lib.exercises.notebook_builder import (
    Chapter,
    Edition,
    fenced,
    is_marked,
    source_of,
)
from course_lib.exercises.safe_folder import MANIFEST, fill
from course_lib.exercises.workbook import make_workbook, workbook_files

ROOT = Path(__file__).resolve().parents[2]
WORKED = [Chapter.read(path) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
EXPORTING = [chapter for chapter in WORKED if chapter.exported]
MODULES = [chapter.module for chapter in EXPORTING] + ["tasks.numbers"]
ANSWERS = {n: a for chapter in EXPORTING for n, a in reference_answers(chapter).items()}
HINTS = {name: ("a push", "a shove") for name in exercises()}

worked_chapter = pytest.mark.parametrize("worked", WORKED, ids=lambda chapter: chapter.file)
an_exercise = pytest.mark.parametrize("name", HINTS)


def body_of(text: str) -> str:
    """Take the indentation of a test's text away, and the line breaks around it."""
    lines = text.strip("\n").split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[margin:] for line in lines).rstrip()


def cell(name: str, source: str, kind: str = "code", **metadata) -> dict:
    """Make a cell of a worked chapter, executed."""
    ran = {"outputs": [{"output_type": "stream", "name": "stdout", "text": ["4\n"]}]}
    ran |= {"execution_count": 1}
    base = {"id": name, "cell_type": kind, "metadata": metadata, "source": body_of(source)}
    return base | (ran if kind == "code" else {})


KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
FRONT = (
    cell("title", "# 1 · Small\n\n> Why? (Paper §3.)", "markdown"),
    cell("box", "![a](../figures/01_small.svg)\n\n**You will build** `double`.", "markdown"),
    cell("first", "#| default_exp masks\n#| export\nimport math"),
    cell("second", "from course_lib.attention import LIMIT\nfrom course_lib.viz import show"),
)
DOUBLE = '#| export\ndef double(x):\n    """Add it to itself."""\n    return x + x'


def notebook(*cells: dict) -> dict:
    """Make a worked chapter."""
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return {"cells": [*FRONT, *cells], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def learned(*cells: dict, solutions: bool = True, hints=None) -> dict[str, dict]:
    """Return the learner's cells by their ids."""
    hints = {"double": ("a push",)} if hints is None else hints
    edition = Edition(hints, frozenset({"masks", "attention"}), solutions)
    made = edition.notebook(Chapter("01_small.ipynb", notebook(*cells)))
    return {c["id"]: {**c, "source": source_of(c)} for c in made["cells"]}


@pytest.fixture
def small(tmp_path):
    """Return the chapters' folder of a course with one small chapter."""
    (tmp_path / "course" / "notebooks").mkdir(parents=True)
    (tmp_path / "course" / "figures").mkdir()
    (tmp_path / "course" / "figures" / "01_small.svg").write_text("<svg/>")
    (tmp_path / "course" / "figures" / "unused.svg").write_text("<svg/>")
    write_chapter(tmp_path / "course" / "notebooks", DOUBLE)
    return tmp_path / "course" / "notebooks"


def write_chapter(chapters: Path, source: str, name: str = "01_small.ipynb") -> None:
    """Write a worked chapter with one exported definition."""
    text = json.dumps(notebook(cell("task", source)))
    (chapters / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a workbook made from the course's own chapters."""
    folder = tmp_path_factory.mktemp("made") / "workbook"
    assert make_workbook(folder, hints=HINTS) == []
    return folder


def cells_of(path: Path) -> list[dict]:
    """Read the cells of a workbook's chapter, sources in one piece."""
    read = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**c, "source": source_of(c)} for c in read]


# --- stubs: source surgery


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            '''
            # above
            @cache  # why
            def f(x: int, *,  y = "a,b" ) -> int:
                """Say it.

                  With an indent.
                """

                # a thought
                if x:
                    return 1
                # in between

                return 2  # said
                # and behind

            # below
            LAST = 1
            ''',
            '''
            # above
            @cache  # why
            def f(x: int, *,  y = "a,b" ) -> int:
                """Say it.

                  With an indent.
                """
                raise NotImplementedError

            # below
            LAST = 1
            ''',
            id="a function: signature, decorator, docstring, comments outside stay",
        ),
        pytest.param(
            """
            def f(
                x,
            ):
                # a thought

                @wraps
                def g(): return x
                return g
            """,
            """
            def f(
                x,
            ):
                raise NotImplementedError
            """,
            id="no docstring, and a decorated definition inside",
        ),
        pytest.param(
            'def f(x="…"): return x  # said',
            'def f(x="…"):\n    raise NotImplementedError',
            id="one line, with a letter of several bytes",
        ),
        pytest.param(
            '''
            class f(nn.Module):
                """A thing."""

                size: int = 3  # kept

                def __init__(self):
                    super().__init__()
                    self.a = 1
                    # the end of it

                # about width
                @property
                def width(self) -> int:
                    """Say how wide."""
                    return 4

                class Inner:
                    def deep(self): return 5

                async def later(self):
                    return 6
            ''',
            '''
            class f(nn.Module):
                """A thing."""

                size: int = 3  # kept

                def __init__(self):
                    raise NotImplementedError

                # about width
                @property
                def width(self) -> int:
                    """Say how wide."""
                    raise NotImplementedError

                class Inner:
                    def deep(self):
                        raise NotImplementedError

                async def later(self):
                    raise NotImplementedError
            ''',
            id="a class: every method; attributes stay",
        ),
    ],
)
def test_a_stub_keeps_everything_but_the_bodies(source, expected):
    assert stubs.stub(body_of(source), ["f"]) == body_of(expected)
    assert stubs.stub(body_of(source), ["g"]) == body_of(source)  # not chosen, not touched


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("my_guess = 0.5  # a share", "my_guess = ...  # a share"),
        ("my_rows = [\n    1,  # no\n    2,\n]", "my_rows = ..."),
        ("my_width: int", "my_width: int"),
        ("my_low, my_high = 1, 2", "my_low, my_high = (..., ...)"),
        ("width = 7\nmyth = 3\nmy_list[0] = 4", "width = 7\nmyth = 3\nmy_list[0] = 4"),
        ("def my_test(f):\n    assert f(1)", f"def my_test(f):\n    {stubs.STUB}"),
    ],
)
def test_only_answers_give_way_to_dots(source, expected):
    assert stubs.without_answers(source) == expected


@pytest.mark.parametrize(
    ("line", "goes"),
    [
        ('check("double", double)', True),
        ('check("double", wrong_double)', False),
        ('report = check("double", double)', False),
        ('show(check("double", double))', False),
    ],
)
def test_only_the_check_of_an_exercise_on_itself_goes(line, goes):
    left = stubs.without_checks(f"x = 1  \n\n{line}", ["double"])
    assert left == ("x = 1  " if goes else f"x = 1  \n\n{line}")


def test_imports_of_the_library_change_hands():
    source = """
        from course_lib.attention import (
            course_lib_name,
        )
        from course_lib.attention_maps import draw
        from course_lib.viz import show
        from course_lib import interop
        from .attention import other
        def f():
            ü = 1; from course_lib.attention import late_course_lib
        print("from course_lib.attention import text")
    """
    before = body_of(source).split("\n")
    after = stubs.from_package("\n".join(before), ["attention"], "my_lib").split("\n")
    assert len(after) == len(before)
    assert [line for line in after if line not in before] == [
        "from my_lib.attention import (",
        "    ü = 1; from my_lib.attention import late_course_lib",
    ]
    for line in ("import course_lib.masks", "from course_lib import masks as m"):
        with pytest.raises(ValueError, match=line):  # it would stay with the course
            stubs.from_package(line, ["masks"], "my_lib")


# --- one small chapter


def test_an_exercise_is_a_stub_an_attempt_and_its_help():
    cells = learned(cell("task", DOUBLE), hints={"double": ("a push", "a *shove*")})
    assert cells["task"]["source"] == (
        '#| export\ndef double(x):\n    """Add it to itself."""\n    raise NotImplementedError\n\n'
        'double = attempt("double", double)'
    )
    assert list(cells)[list(cells).index("task") + 1] == "task-help"
    help = cells["task-help"]
    assert help["cell_type"] == "markdown"
    assert help["source"] == (
        "<details><summary>Hint</summary>\n\na push\n\n"
        "<details><summary>A plainer hint</summary>\n\na *shove*\n\n</details>\n\n</details>\n\n"
        "<details><summary>Solution</summary>\n\n```python\n    return x + x\n```\n\n</details>"
    )


def test_checks_go_and_a_cell_with_nothing_else_goes_with_them():
    cells = learned(
        cell("task", DOUBLE),
        cell("alone", '# is it right?\ncheck("double", double)'),
        cell("last", 'print(double(2))\ncheck("double", double)'),
        cell("comment", "# nothing to run"),
    )
    assert "alone" not in cells
    assert cells["last"]["source"] == "print(double(2))"
    assert cells["comment"]["source"] == "# nothing to run"


def test_names_are_known_before_they_are_written():
    cells = learned(cell("say", "Words.", "markdown"), cell("task", DOUBLE), cell("b", "K = 1"))
    assert list(cells)[:6] == ["title", "box", "how-exercises-work", "first", "second", "stand-ins"]
    lines = cells["stand-ins"]["source"].split("\n")
    assert lines[0] == "import math" and "from torch.nn import functional as F" in lines
    assert "from course_lib.exercises import attempt, export_mine" in lines
    assert lines[-1] == "from course_lib.masks import double"


def test_the_last_cell_exports():
    cells = list(learned(cell("task", DOUBLE)).values())
    assert cells[-1]["source"] == "export_mine()" and cells[-1]["cell_type"] == "code"
    assert "`my_lib/masks.py`" in cells[-2]["source"]
    without = learned(cell("a", "x = 1"))  # the chapter exports nothing
    assert "export-mine" not in without and "stand-ins" not in without


EXERCISE = """
    #| exercise
    from course_lib.masks import double
    my_guess = 4
    seen = [1]
    def my_test(f):
        '''Fail for what is wrong.'''
        assert f(2) == 4
    predict("doubled", my_guess)
"""


def test_other_exercises_lose_their_answers_only():
    cells = learned(cell("task", EXERCISE))
    assert cells["task"]["source"] == body_of(EXERCISE).replace("= 4\n", "= ...\n", 1).replace(
        "assert f(2) == 4", "raise NotImplementedError"
    ).replace("course_lib", "my_lib")
    answer = fenced(body_of(EXERCISE).removeprefix("#| exercise\n"))
    assert cells["task-help"]["source"] == (
        f"<details><summary>Solution</summary>\n\n{answer}\n\n</details>"
    )
    assert "task-help" not in learned(cell("task", EXERCISE), solutions=False)


def test_an_answer_and_the_words_about_it_make_one_solution():
    first = "<details><summary>Solution</summary>\n\na\n\n</details>"
    told = cell("told", f"{first}\n\n**2. Why?**", "markdown")
    cells = learned(cell("task", EXERCISE), told)
    answer = fenced(body_of(EXERCISE).removeprefix("#| exercise\n"))
    assert "task-help" not in cells
    assert cells["told"]["source"] == source_of(told).replace("\n\na", f"\n\n{answer}\n\na")
    cells = learned(cell("task", EXERCISE), told, solutions=False)
    assert cells["told"]["source"].strip() == "**2. Why?**"


def test_without_solutions_the_chapters_own_go():
    text = """
        ## Exercises

        **1. Predict.** How many?

        <details><summary>Solution 1</summary>

        Four.

        </details>

        **2. Say why.**

        <details><summary>Something else</summary>

        A table.

        </details>

        <details>
        <summary>Solution 2</summary>
        Because.
        </details>
    """
    own = [cell("text", text, "markdown"), cell("only", text[text.rindex("<det") :], "markdown")]
    with_them, without = learned(*own), learned(*own, solutions=False)
    assert with_them["text"]["source"] == body_of(text)
    assert "Four" not in without["text"]["source"] and "Because" not in without["text"]["source"]
    assert "**2. Say why.**" in without["text"]["source"] and "A table" in without["text"]["source"]
    assert without["text"]["source"].count("<details>") == 1
    assert "only" not in without


def test_pictures_are_found_beside_the_chapters():
    assert learned()["box"]["source"].startswith("![a](figures/01_small.svg)")
    near = "[next](02_next.ipynb), [web](https://x.org/../y), `a[0](../b)`"
    assert learned(cell("a", near.partition(", `")[0], "markdown"))["a"]["source"] in near
    with pytest.raises(ValueError, match=r"01_small.ipynb links to ../CONTRIBUTING.md"):
        learned(cell("a", "[how](../CONTRIBUTING.md)", "markdown"))


# --- the folder


def files_in(folder: Path) -> dict[str, str]:
    """Read a folder, by names."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in found}


def test_a_workbook_holds_what_it_needs_and_no_more(small, tmp_path):
    folder = tmp_path / "new" / "workbook"
    assert make_workbook(folder, chapters=small, hints={"double": ()}) == []
    assert set(files_in(folder)) == {
        "01_small.ipynb",
        "README.md",
        "figures/01_small.svg",
        "my_lib/__init__.py",
        "my_lib/masks.py",
        "my_lib/tasks/__init__.py",
        "my_lib/tasks/numbers.py",
        MANIFEST,
    }
    read = nbformat.read(folder / "01_small.ipynb", as_version=4)
    nbformat.validate(read)
    assert read.metadata == {"kernelspec": KERNEL}


def test_an_empty_folder_will_do_and_any_other_is_refused(small, tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    make_workbook(folder, chapters=small, hints={})
    (folder / "my_lib" / "masks.py").write_text("mine")
    before = files_in(folder)
    with pytest.raises(ValueError, match="not empty; --force"):
        make_workbook(folder, chapters=small, hints={})
    assert files_in(folder) == before


@pytest.mark.parametrize("text", ["", '{"cells": [{"cell_type": "code"}]}', None])
def test_a_chapter_that_cannot_be_read_is_named(small, tmp_path, text):
    if text is None:
        write_chapter(small, "%matplotlib inline", "02_broken.ipynb")
    else:
        (small / "02_broken.ipynb").write_text(text)
    with pytest.raises(ValueError, match="02_broken.ipynb is no chapter"):
        make_workbook(tmp_path / "a", chapters=small, hints={})


def test_without_chapters_it_says_where_to_run_it(tmp_path, monkeypatch):
    monkeypatch.setattr(workbook, "COURSE", tmp_path / "site-packages")
    with pytest.raises(ValueError, match="run it from a clone of the course"):
        make_workbook(tmp_path / "a", hints={})


def test_the_course_itself_is_never_written_over(small, tmp_path, monkeypatch):
    before = files_in(tmp_path)
    monkeypatch.chdir(small)
    for folder in (small, small.parent, Path(".."), Path("../notebooks")):
        with pytest.raises(ValueError, match="holds the course itself"):
            make_workbook(folder, chapters=small, hints={}, force=True)
    assert files_in(tmp_path) == before


def test_a_workbook_of_the_first_edition_is_left_as_it_is(small, tmp_path):
    folder = tmp_path / "a"
    make_workbook(folder, chapters=small, hints={})
    (folder / "my_lib" / "__init__.py").write_text('"""Your own Transformer."""\n')
    before = files_in(folder)
    with pytest.raises(ValueError, match="first edition; make a new workbook in another folder"):
        make_workbook(folder, chapters=small, hints={}, force=True)
    assert files_in(folder) == before


def test_force_keeps_aside_what_was_changed_time_after_time(small, tmp_path):
    folder, kept = tmp_path / "a", []
    make_workbook(folder, chapters=small, hints={})
    fresh = files_in(folder)
    for number in (1, 2):
        (folder / "my_lib" / "masks.py").write_text(f"mine {number}")
        (folder / "01_small.ipynb").write_text(f"page {number}")
        kept += make_workbook(folder, chapters=small, hints={}, force=True)
    expected = ("01_small.ipynb", "my_lib/masks.py")
    assert sorted(kept) == [folder / f"kept-{n}" / name for n in (1, 2) for name in expected]
    assert [path.read_text()[-1] for path in sorted(kept)] == ["1", "1", "2", "2"]
    assert {n: text for n, text in files_in(folder).items() if "kept" not in n} == fresh


def test_force_leaves_alone_what_is_none_of_its_business(small, tmp_path):
    folder = tmp_path / "a"
    make_workbook(folder, chapters=small, hints={})
    (folder / "my_lib" / "progress.json").write_text("{}")
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "kept.pt").write_text("weights")
    (folder / "notes.ipynb").write_text("notes")
    before = files_in(folder)
    assert make_workbook(folder, chapters=small, hints={"double": ("a push",)}, force=True) == []
    after = files_in(folder)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed == {"01_small.ipynb", MANIFEST}  # a page that nobody touched is written anew
    other = tmp_path / "b"
    other.mkdir()
    (other / "README.md").write_text("about something else")
    (kept,) = make_workbook(other, chapters=small, hints={}, force=True)
    assert kept.read_text() == "about something else"


@pytest.mark.parametrize("text", [None, "cut o", '["README.md"]'])
def test_where_nobody_knows_what_was_written_everything_different_is_kept(small, tmp_path, text):
    folder = tmp_path / "a"
    make_workbook(folder, chapters=small, hints={"double": ("a push",)})
    (folder / "my_lib" / "masks.py").write_text("mine")
    if text is None:
        (folder / MANIFEST).unlink()
    else:
        (folder / MANIFEST).write_text(text)
    kept = make_workbook(folder, chapters=small, hints={"double": ()}, force=True)
    assert sorted(path.name for path in kept) == ["01_small.ipynb", "masks.py"]


def test_a_chapter_that_the_course_no_longer_has_is_moved_aside(small, tmp_path):
    folder = tmp_path / "a"
    make_workbook(folder, chapters=small, hints={})
    (small / "01_small.ipynb").rename(small / "02_small.ipynb")
    (kept,) = make_workbook(folder, chapters=small, hints={}, force=True)
    assert kept == folder / "kept-1" / "01_small.ipynb"
    assert not (folder / "01_small.ipynb").exists() and (folder / "02_small.ipynb").exists()


def test_a_list_of_files_never_reaches_outside(tmp_path):
    (tmp_path / "outside").write_text("safe")
    folder = tmp_path / "a"
    folder.mkdir()
    names = {"../outside": "", str(tmp_path / "outside"): "", "b/../../outside": ""}
    (folder / MANIFEST).write_text(json.dumps(names))
    assert fill(folder, {"x": b"1"}, force=True) == []
    assert (tmp_path / "outside").read_text() == "safe"


def test_a_stop_at_any_moment_loses_nothing(tmp_path, monkeypatch):
    names = ("a", "deep/b", "deep/er/c")
    really, stopped = os.replace, 0
    for moment in count():
        folder = tmp_path / str(moment)
        fill(folder, {name: b"first" for name in names})
        mine = {name: f"mine {name}" for name in names[1:]}
        for name, text in mine.items():
            (folder / name).write_text(text)
        moves = count()

        def stop_there(source, target, moves=moves, moment=moment):
            if next(moves) == moment:
                raise KeyboardInterrupt
            really(source, target)

        monkeypatch.setattr(folders.os, "replace", stop_there)
        try:
            fill(folder, {name: b"second" for name in names}, force=True)
        except KeyboardInterrupt:
            stopped += 1
        else:
            break
        finally:
            monkeypatch.undo()
        assert set(mine.values()) <= set(files_in(folder).values())
        fill(folder, {name: b"third" for name in names}, force=True)  # and it can be done again
        assert set(mine.values()) <= set(files_in(folder).values())
        assert {(folder / name).read_text() for name in names} == {"third"}
    assert stopped == 2 + 4  # two files aside, three fresh ones and the list into their places


def test_a_full_disk_moves_nothing(small, tmp_path, monkeypatch):
    folder = tmp_path / "a"
    make_workbook(folder, chapters=small, hints={})
    (folder / "my_lib" / "masks.py").write_text("mine")
    before, really, writes = files_in(folder), Path.write_bytes, count()

    def write(path, content):
        if next(writes) == 3:
            raise OSError("no space left on device")
        return really(path, content)

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(OSError, match="no space left"):
        make_workbook(folder, chapters=small, hints={}, force=True)
    assert files_in(folder) == before


# --- the command


@pytest.fixture
def course(small, tmp_path, monkeypatch, capsys):
    """Return a function that runs ``course workbook`` on the small course."""
    monkeypatch.setattr(workbook, "COURSE", small.parent)
    monkeypatch.setattr(workbook, "exercises", lambda: ["double"])
    monkeypatch.setattr(
        workbook, "exercise", lambda name: type("Task", (), {"hints": ("a push",)})()
    )
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = cli.main(["workbook", *arguments])
        return code, *capsys.readouterr()

    return run


def test_the_command_makes_a_workbook_with_or_without_solutions_and_replaces_none(course, tmp_path):
    write_chapter(tmp_path / "course" / "notebooks", DOUBLE, "02_next.ipynb")
    code, out, err = course("my book")
    assert (code, err) == (0, "")
    assert out == "the workbook is ready: jupyter lab 'my book/01_small.ipynb'\n"
    page = (tmp_path / "my book" / "01_small.ipynb").read_text("utf-8")
    assert "a push" in page and "return x + x" in page
    assert course("book", "--no-solutions")[0] == 0
    page = (tmp_path / "book" / "01_small.ipynb").read_text("utf-8")
    assert "a push" in page and "return x + x" not in page
    code, out, err = course("book")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("course workbook: book is not empty; --force")


def test_the_command_says_what_it_kept_and_how_to_have_it_back(course, tmp_path):
    course("my book")
    mine = tmp_path / "my book" / "my_lib" / "masks.py"
    mine.write_text("mine")
    code, out, err = course("my book", "--force")
    assert (code, err) == (0, "") and mine.read_text() != "mine"
    (command,) = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert mine.read_text() == "mine"


# --- the course's own chapters


@worked_chapter
def test_a_chapter_of_the_workbook_is_valid_and_finds_all_that_it_names(made, worked):
    read = nbformat.read(made / worked.file, as_version=4)
    nbformat.validate(read)
    assert read.metadata == {"kernelspec": KERNEL}
    names = [c.id for c in read.cells]
    assert len(set(names)) == len(names)
    for c in read.cells:
        assert c.cell_type == "markdown" or (c.outputs, c.execution_count) == ([], None)
        if c.cell_type == "code" and c.id != "stand-ins":
            assert not re.search(rf"course_lib\.({'|'.join(MODULES)})\b", c.source), c.source
    text = "\n".join(c.source for c in read.cells if c.cell_type == "markdown")
    targets = re.findall(r'(?:!\[[^\]]*\]|\[[^\]`]*\])\(([^)\s]+)|src="([^"]+)"', text)
    links = [a or b for a, b in targets if not re.match(r"https?:|#", a or b)]
    assert any(link.startswith("figures/") for link in links)
    for link in links:
        target = (made / link.partition("#")[0]).resolve()
        assert target.is_file() and target.is_relative_to(made.resolve()), link


def as_in_the_workbook(c: dict, before: str) -> str:
    """Say what a worked cell should be for the learner, where it holds no exercise.

    Args:
        c: The cell.
        before: The source of the cell before it.
    """
    if c["cell_type"] == "markdown":
        text = source_of(c).replace("](../figures/", "](figures/")
        head = "<details><summary>Solution</summary>\n\n"
        answer = fenced(before.partition("\n")[2]) + "\n\n"
        told = before.startswith("#| exercise") and text.startswith(head)
        return text.replace(head, head + answer, 1) if told else text
    pattern = rf"^(\s*from )course_lib(\.({'|'.join(MODULES)}) import)"
    return re.sub(pattern, r"\1my_lib\2", source_of(c), flags=re.M)


@worked_chapter
def test_everything_that_is_no_exercise_is_kept(made, worked):
    names = [c["id"] for c in worked.cells]
    mine = {c["id"]: c for c in cells_of(made / worked.file)}
    assert [name for name in mine if name in names] == [name for name in names if name in mine]
    before = ""
    for c in worked.cells:
        checked = 'check("' in source_of(c)
        if not (checked or tasks(mine[c["id"]]) or is_marked(source_of(c), "exercise")):
            assert mine[c["id"]]["source"] == as_in_the_workbook(c, before)
            assert mine[c["id"]]["metadata"] == c["metadata"]
        before = source_of(c)


@worked_chapter
def test_every_exercise_is_attempted_once_and_has_help_below(made, worked):
    cells = cells_of(made / worked.file)
    attempted = [name for c in cells for name in tasks(c)]
    assert attempted == [name for name in worked.exported if name in HINTS]
    for place, c in enumerate(cells):
        for name in tasks(c):
            help = cells[place + 1]["source"]
            assert help.index("a push") < help.index("a shove") < help.index("Solution")
            assert fenced(stubs.solution(ANSWERS[name], name)) in help


def without_bodies(tree: ast.Module) -> ast.Module:
    """Replace the bodies of the outermost functions in a tree."""
    todo = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.ClassDef):
            todo += node.body
        elif isinstance(node, ast.FunctionDef):
            said = node.body[:1] if ast.get_docstring(node) else []
            node.body = said + ast.parse(stubs.STUB).body
    return tree


@an_exercise
def test_a_stub_is_the_definition_without_its_bodies(name):
    stub = stubs.stub(ANSWERS[name], [name])
    expected = without_bodies(ast.parse(ANSWERS[name]))
    assert ast.dump(ast.parse(stub)) == ast.dump(expected)
    new = [x[2:] for x in difflib.ndiff(ANSWERS[name].split("\n"), stub.split("\n")) if x[0] == "+"]
    assert {line.strip() for line in new} == {stubs.STUB}  # every other line is as it was


@an_exercise
def test_the_solution_shown_is_all_that_the_stub_lacks(name):
    shown = stubs.solution(ANSWERS[name], name)
    tree = ast.parse(ANSWERS[name])
    if isinstance(tree.body[0], ast.ClassDef):
        for node in ast.walk(tree.body[0]):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                del node.body[0]
        assert ast.dump(ast.parse(shown)) == ast.dump(tree)
    else:
        filled = stubs.stub(ANSWERS[name], [name]).replace("    " + stubs.STUB, shown)
        assert filled == ANSWERS[name]


def test_without_solutions_no_answer_is_left():
    files = workbook_files(ROOT / "notebooks", HINTS, solutions=False)
    for worked in WORKED:
        text = "\n\n".join(source_of(c) for c in json.loads(files[worked.file])["cells"])
        assert "<summary>Solution" not in text
        assert text.count("<details>") == text.count("</details>")
        for name in set(worked.exported) & set(HINTS):
            assert stubs.solution(ANSWERS[name], name) not in text, name
    shy = files["README.md"].decode()
    assert "{" not in shy and "solution" not in shy


LOOK = """
import importlib, sys
from pathlib import Path
from my_lib.tasks import numbers
assert numbers.folder_of(numbers.TranslatorConfig()).parent == Path.cwd() / "checkpoints"
for module in sys.argv[1:]:
    mine, course = (importlib.import_module(f"{p}.{module}") for p in ("my_lib", "course_lib"))
    if not module.startswith("tasks."):
        assert sorted(mine.__all__) == sorted(course.__all__), module
        for name in mine.__all__:
            one = getattr(mine, name)
            assert getattr(one, "__module__", mine.__name__) == mine.__name__, name
whole = numbers.Transformer, numbers.label_smoothed_cross_entropy, numbers.Translator
print(sorted({thing.__module__ for thing in whole}))
print(sorted(name for name in sys.modules if name.startswith("my_lib.")))
"""


def test_a_fresh_library_runs_the_courses_text_and_its_translator_uses_it(made):
    command = [sys.executable, "-c", LOOK, *MODULES]
    done = subprocess.run(command, cwd=made, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whose, loaded = done.stdout.splitlines()
    assert whose == "['my_lib.tasks.numbers', 'my_lib.training', 'my_lib.transformer']"
    assert loaded == str(sorted(f"my_lib.{module}" for module in [*MODULES, "tasks"]))


def test_the_readme_tells_the_truth(made):
    text = (made / "README.md").read_text("utf-8")
    assert "{" not in text and "solution" in text
    (choices,) = [a.choices for a in cli.parser()._actions if a.dest == "command"]
    assert {"workbook", "progress"} == set(re.findall(r"`course (\w+)", text)) <= set(choices)
    assert (made / re.search(r"jupyter lab (\S+\.ipynb)`", text)[1]).is_file()
    assert 'export_mine(without="causal_mask")' in text
    for report in (Report("x", True), Report("x", False), Report("x", False, attempted=False)):
        assert f"| {report.title.removesuffix(': x')} |" in text
