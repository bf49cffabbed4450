"""The saved chapters and side trips follow the rules for them (without being run)."""

import ast
import base64
import copy
import dis
import io
import re
from functools import cache
from pathlib import Path
from types import CodeType

import chapter_times
import embed_pictures
import nbformat
import pytest
import sizes
from code_metrics import code_lines
from explorer_page import EXPLORERS
from PIL import Image

from course_lib.exercises.checking.exercise import find_exercise
from course_lib.exercises.library.progress import items
from course_lib.exercises.workbook.notebook_builder import SIDE_TRIPS, Chapter
from course_lib.viz.explorer_base import FOLDER
from notebooks import (
    GUARD,
    HIDE,
    METADATA,
    NEEDS_WEIGHTS,
    ROOT,
    chapters,
    metadata_of,
    module_name,
    pages,
    setup_of,
)

CHAPTERS = chapters()
TRIPS = [path for path in pages() if path not in CHAPTERS]
MEGABYTE = 1_000_000  # bytes
DOCSTRING = 94  # characters of a module's first line, without its quotes: ruff allows 100 with them
MAGICS = r"^\s*([!%]|sys\.path)|\b(wget|urllib|requests)\b"

page = pytest.mark.parametrize("path", [*CHAPTERS, *TRIPS], ids=lambda path: path.stem)
chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


@cache
def read(path: Path) -> nbformat.NotebookNode:
    """Read a chapter and make sure that it is a valid notebook."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def is_trip(path: Path) -> bool:
    return path.parent.name == SIDE_TRIPS


def cells(path: Path, kind: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == kind]


def sections(cells: list[nbformat.NotebookNode]) -> list[tuple[str, list]]:
    """Split a chapter at its ``##`` headings; the opening has an empty heading."""
    found = [("", [])]
    for cell in cells:
        heading = re.search(r"^## (.+)", cell.source, re.M)
        if cell.cell_type == "markdown" and heading:
            found.append((heading[1], []))
        found[-1][1].append(cell)
    return found


def test_every_chapter_is_named_by_a_number_and_a_noun_and_a_side_trip_by_its_chapter():
    assert all(re.fullmatch(r"\d\d_[a-z]+(_[a-z]+)?\.ipynb", path.name) for path in CHAPTERS)
    assert [int(path.name[:2]) for path in CHAPTERS] == list(range(len(CHAPTERS)))
    assert {path.name[:2] for path in TRIPS} <= {path.name[:2] for path in CHAPTERS}


def test_every_chapter_embeds_its_current_pictures():
    assert embed_pictures.write(check=True) == [], "a figure has changed; run: make sync"


@page
def test_the_first_code_cell_says_how_to_install_the_course(path):
    first = cells(path, "code")[0]
    guard = GUARD.match(first.source)
    assert guard, "the guard speaks before an import fails"
    assert first.source != guard[0], "imports follow it"
    assert first in setup_of(cells(path, "code"))


@page
def test_a_chapters_file_is_small_and_has_few_guesses(path):
    assert path.stat().st_size <= MEGABYTE
    asked = sum(cell.source.count("**Guess") for cell in cells(path, "markdown"))
    called = sum(len(re.findall(r"\bguess\(", cell.source)) for cell in cells(path, "code"))
    assert asked + called <= 5


def test_the_question_of_a_guess_is_asked_once_and_not_hidden_with_its_answer():
    sources = [cell.source for path in CHAPTERS + TRIPS for cell in cells(path, "code")]
    asked = [source for source in sources if source.startswith("guess(")]
    questions = [ast.parse(source).body[0].value.args[0].value for source in asked]
    assert len(questions) == len(set(questions)) > 0
    assert all(source.startswith("guess(\n") for source in asked), "JupyterLab shows the first line"


def test_every_page_says_how_long_the_chapters_take():
    assert chapter_times.write(check=True) == [], "run: make sync"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert chapter_times.TOTAL.search(readme)
    read_25, done_25 = chapter_times.page_times()["25"]
    trip = ("patches", "tokens_of_an_image")  # the exercises of its side trip
    own = sum(item.minutes for item in items() if item.chapter == 25 and item.name not in trip)
    assert abs(done_25 - read_25 - own) <= 2.5
    start = "\n".join(cell.source for cell in cells(CHAPTERS[0], "markdown"))
    rows = {path.name[:2] for path in CHAPTERS}
    paper = {f"{n:02}" for n in (*range(10), 11, 12)}
    chat = paper | {"18", "19", "21", "22", "23", "24"}
    routes = {"The paper": paper, "Your own chat model": chat, "Everything": rows}
    for text in (start, *(page.read_text(encoding="utf-8") for page in chapter_times.PAGES[1:])):
        found = {m[2]: chapter_times.listed(m[3]) for m in chapter_times.ROUTE.finditer(text)}
        assert list(found) == list(routes)
        assert found | {"Everything": rows} == routes and rows <= found["Everything"]


@chapter
def test_the_opening_names_exactly_the_readers_definitions(path):
    code = "\n".join(cell.source for cell in cells(path, "code"))
    opening = "\n".join(cell.source for cell in cells(path, "markdown")[:3])
    sentence = re.search(r"\*You build\*.*?\.(?=\s|$)", opening, re.DOTALL)[0]
    checked = re.findall(r'^check\("(\w+)", \1\)', code, re.MULTILINE)
    stubs = {stub for name in checked for stub in find_exercise(name).stubs}
    named = set(re.findall(r"`([\w.]+)`", sentence))
    assert named == stubs, "the sentence must name what the check cells check"


@page
def test_code_cells_are_short_with_text_between_them(path):
    run, all_cells = 0, read(path).cells
    for cell in all_cells:
        setup = GUARD.match(cell.source) or cell in setup_of(all_cells)
        run = run + 1 if cell.cell_type == "code" and not setup else 0
        assert run <= 2, cell.source
        visible = run and "#| export" not in cell.source  # test_architecture measures the modules
        assert not visible or code_lines(cell.source) <= 25, cell.source
        assert not run or max(map(len, cell.source.splitlines())) <= 100, cell.source


@chapter
def test_the_recap_lists_every_exercise_and_only_the_last_chapter_says_that_it_is_the_last(path):
    recap = dict(sections(read(path).cells))["Recap"]
    text = "\n".join(cell.source for cell in recap if cell.cell_type == "markdown")
    code = "\n".join(cell.source for cell in cells(path, "code"))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    named = set(re.findall(r"\w+", " ".join(rows)))
    missing = set(re.findall(r'^check\("(\w+)"', code, re.M)) - named
    assert not missing, "add a row to the table in the recap"
    assert ("This is the last chapter" in text) == (path == CHAPTERS[-1])


@page
def test_the_picture_of_an_explorer_is_its_still(path):
    for cell in cells(path, "code"):
        if name := re.fullmatch(r"(\w+Explorer)\(\)", cell.source):
            (kind,) = (explorer for explorer in EXPLORERS if explorer.__name__ == name[1])
            saved = Image.open(io.BytesIO(base64.b64decode(cell.outputs[0].data["image/png"])))
            still = Image.open(FOLDER / "stills" / f"{kind.module}.png")
            same = saved.convert("RGB") == still.convert("RGB")
            assert same, f"run: python tools/notebooks.py run notebooks/{path.name}"


@page
def test_a_chapter_was_executed_once_from_top_to_bottom_with_every_answer_right(path):
    code = cells(path, "code")
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        assert len(cell.outputs) <= 1, cell.source
        assert not any("✗" in o.get("data", {}).get("text/plain", "") for o in cell.outputs)
        broken = any(output.output_type == "error" for output in cell.outputs)
        assert broken == ("raises-exception" in cell.metadata.get("tags", [])), cell.source


@page
def test_a_chapter_says_nothing_about_the_machine_it_ran_on(path):
    notebook = read(path)
    metadata = copy.deepcopy(notebook.metadata)
    metadata.language_info.version = METADATA["language_info"]["version"]  # of any Python
    assert metadata == METADATA
    setup = setup_of(notebook.cells)
    assert all(cell.metadata == metadata_of(cell, cell in setup) for cell in notebook.cells)
    assert not re.search(r"/home/|/root/|/Users/|[A-Z]:\\\\", path.read_text(encoding="utf-8"))


@page
def test_a_chapter_is_quiet_reproducible_and_strict(path):
    tags = {tag for cell in read(path).cells for tag in cell.metadata.get("tags", [])}
    assert tags <= {"nbval-ignore-output", "raises-exception", HIDE, NEEDS_WEIGHTS}
    sources = [cell.source for cell in cells(path, "code")]
    assert not any(source.rstrip().endswith(";") for source in sources), "nbval rejects it"
    assert not any(re.search(MAGICS, source, re.M) for source in sources)
    assert not any("NBVAL_SKIP" in source for source in sources)
    assert sum("torch.manual_seed(" in source for source in sources) <= 1, "seed only in one cell"


def read_from_weights(cells: list[nbformat.NotebookNode]) -> set[str]:
    """List the names that an untagged cell reads and that a tagged cell defined last."""
    found, tagged = set(), set()
    for cell in cells:
        defined, read_first = stored_and_read(compile(cell.source, "cell", "exec"))
        if NEEDS_WEIGHTS in cell.metadata.get("tags", []):
            tagged |= defined
        else:
            found |= read_first & (tagged | {"find_weights"})
            tagged -= defined
    return found


def stored_and_read(code: CodeType) -> tuple[set[str], set[str]]:
    """Return the globals that code defines, and the globals that it reads before defining them."""
    defined, read_first = set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_NAME", "STORE_GLOBAL"):
            defined.add(step.argval)
        elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in defined:
            read_first.add(step.argval)
    for inner in (const for const in code.co_consts if isinstance(const, CodeType)):
        read_first |= stored_and_read(inner)[1] - defined
    return defined, read_first


@page
def test_a_chapter_without_weights_runs_the_cells_without_the_tag(path):
    assert not read_from_weights(cells(path, "code"))
    tagged = [c for c in cells(path, "code") if NEEDS_WEIGHTS in c.metadata.get("tags", [])]
    assert not any(re.match(r"#\| ex|guess\(", cell.source) for cell in tagged), "tagged exercise"


@page
def test_nothing_of_the_template_is_left(path):
    for cell in cells(path, "markdown"):
        assert "TODO:" not in cell.source, f"replace what begins with TODO in:\n{cell.source}"


@page
def test_every_picture_is_stored_as_png_with_alt_text_and_as_text(path):
    for cell in cells(path, "code"):
        assert "plt.show()" not in cell.source, "end the cell with show(fig, alt=…)"
        for output in (each for each in cell.outputs if "image/png" in each.get("data", {})):
            assert output.data.keys() == {"image/png", "text/plain"}, cell.source
            about = output.metadata["image/png"]
            assert about.keys() == {"alt", "width", "height"}, cell.source
            assert min(len(about.alt), len(output.data["text/plain"])) >= 20, cell.source


@page
def test_an_export_cell_contains_exactly_one_definition(path):
    for cell in cells(path, "code"):
        if "#| export" in cell.source and "#| default_exp" not in cell.source:
            homes = [p for p in CHAPTERS if p.name[:2] == path.name[:2] and is_trip(path)]
            module = "".join(f" {module_name(home)}" for home in homes)
            assert cell.source.startswith(f"#| export{module}\n")
            body = ast.parse(cell.source).body
            assert len(body) == 1 and not isinstance(body[0], ast.Import | ast.ImportFrom)


def test_no_chapter_imports_what_only_a_side_trip_exports():
    trips = {(trip.module, name) for trip in map(Chapter.read, TRIPS) for name in trip.exported}
    for path in CHAPTERS:
        tree = ast.parse("\n".join(cell.source for cell in cells(path, "code")))
        froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names = {(node.module.rpartition(".")[2], a.name) for node in froms for a in node.names}
        assert not names & trips, path.name


def opening(path: Path) -> tuple[str, str]:
    """Return the text of the first cell without pictures' data, and its last paragraph."""
    text = embed_pictures.PICTURE_DATA.sub("", cells(path, "markdown")[0].source).rstrip()
    return text, text.rpartition("\n\n")[2]


@page
def test_the_opening_shows_the_puzzle_before_one_line_of_logistics(path):
    assert read(path).cells[0].cell_type == "markdown" and read(path).cells[1].cell_type == "code"
    text, logistics = opening(path)
    title = r"# Side trip: .+\?" if is_trip(path) else rf"# {int(path.name[:2])} · \S.*"
    found = re.match(rf"{title}\n\n> (.+\.)\n\n\*\*(.+\?)\*\*\n\n", text)
    assert found, f"{text}\nneeds a title, a `>` line, and a puzzle in bold"
    if is_trip(path):
        assert f"(leaves from [chapter {path.name[:2]}](../" in found[1]
    else:
        assert len(found[1]) <= DOCSTRING and "?" not in found[1], found[1]
    parts = (
        r"\*You need\* .+ \*Time:\* \d+ minutes"
        if is_trip(path)
        else (
            r"\*You build\* .+ \*You need\* .+ \*Papers?:\* .+ \*Time:\* \d+ minutes, \d+ with the"
        )
    )
    assert re.match(parts, logistics), logistics


@page
def test_a_page_is_small_and_something_happens_at_once(path):
    size = sizes.measure(path)
    assert sizes.too_large(path, size) == []
    assert size["first"] <= 3, "the run comes first"


@page
def test_a_page_proves_nothing_and_doubts_in_one_box(path):
    for cell in cells(path, "code"):
        is_code_of_reader = re.match(r"#\| (export|exercise)", cell.source)
        if re.search(r"^\s*assert", cell.source, re.M) and not is_code_of_reader:
            assert "nbval-ignore-output" in cell.metadata.get("tags", []), cell.source
    text = "\n\n".join(cell.source for cell in cells(path, "markdown"))
    (box,) = re.findall(r"^> \*\*How sure are we\?\*\*(.+)$", text, re.M)
    assert len(box.split()) <= 120
    headings = [heading for heading, _ in sections(read(path).cells)[1:]]
    assert not any("Deep dive" in heading for heading in headings)
    code = "\n".join(cell.source for cell in cells(path, "code"))
    if is_trip(path):
        assert code.count("show(") == 1, "a side trip shows one picture"
    else:
        assert headings[-1] == "Recap" and "*Further reading.*" in text
        assert len(re.findall(r"^\w+Explorer\(\)", code, re.M)) <= 1
        assert 2 <= len(re.findall(r"^guess\(", code, re.M)) <= 5
