"""Fill in a workbook as a learner would, with any answer to an exercise."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chapter_runner import Runner

from course_lib.exercises.library import stubs
from course_lib.exercises.library.package import LIBRARY
from course_lib.exercises.questions.question import questions
from course_lib.exercises.workbook.notebook_builder import Chapter, is_marked, source_of
from course_lib.exercises.workbook.workbook_folder import TASKS, make_workbook
from course_lib.interop.weights import missing_weights
from course_lib.tasks.numbers import TranslatorConfig, folder_of, load_or_train
from notebooks import NEEDS_WEIGHTS, pages

WORKED = {chapter.file: chapter for chapter in map(Chapter.read, pages())}
MODULES = frozenset({chapter.module for chapter in WORKED.values()} - {None} | set(TASKS))
NOTHING: Mapping[str, str] = {}
ATTEMPT = re.compile(r'^(\w+) = attempt\("\1", \1\)$', re.M)


def exercises_in(cell: Mapping[str, Any]) -> list[str]:
    """List the exercises in a workbook's cell."""
    return ATTEMPT.findall(source_of(cell)) if cell["cell_type"] == "code" else []


def reference_answers(chapter: Chapter) -> dict[str, str]:
    """Return the source of every definition that a completed chapter exports."""
    marked = [source for source in chapter.sources if is_marked(source, "export")]
    return {name: definition(source, name) for source in marked for name in stubs.defined(source)}


def definition(source: str, name: str) -> str:
    """Extract one definition from a cell, including its decorators."""
    node = stubs.defined(source)[name]
    first = min(n.lineno for n in (node, *node.decorator_list))
    return "\n".join(source.split("\n")[first - 1 : node.end_lineno])


def filled(
    folder: Path, file: str, answers: Mapping[str, str] = NOTHING, *, others: bool = False
) -> list[dict[str, Any]]:
    """Read the cells of a workbook's chapter, with answers in place of the stubs.

    Args:
        folder: The workbook.
        file: The chapter.
        answers: Sources of definitions, by the name of the exercise; other stubs stay.
        others: Whether to answer other exercises (``#| exercise``) as the completed chapter does.
    """
    cells = json.loads((folder / file).read_text(encoding="utf-8"))["cells"]
    worked = {cell["id"]: source_of(cell) for cell in WORKED[file].cells}
    for cell in cells:
        for name in set(exercises_in(cell)) & set(answers):
            source = source_of(cell)
            cell["source"] = source.replace(definition(source, name), answers[name])
        if others and is_marked(source_of(cell), "exercise"):
            cell["source"] = stubs.from_package(worked[cell["id"]], MODULES, LIBRARY)
    return cells


def run_chapter(
    runner: Runner, cells: list[dict[str, Any]], folder: Path
) -> tuple[dict[str, str], list[str]]:
    """Run a chapter without an unexpected error; return the exercises' reports, and all cells.

    Cells that need published weights are left out if the weights are missing.
    """
    cells = [cell for cell in cells if cell["cell_type"] == "code"]
    if missing_weights():
        cells = [cell for cell in cells if NEEDS_WEIGHTS not in cell["metadata"].get("tags", [])]
    outputs = runner.run([source_of(cell) for cell in cells], folder)
    pairs = list(zip(cells, outputs, strict=True))
    errors = [
        f"{source_of(cell)}\n{output['error']}"
        for cell, output in pairs
        if output["error"] and "raises-exception" not in cell["metadata"].get("tags", [])
    ]
    assert not errors, "\n".join(errors)
    said = {name: output["shown"] for cell, output in pairs for name in asked_in(cell)}
    return said, [output["shown"] for output in outputs]


def asked_in(cell: Mapping[str, Any]) -> list[str]:
    """List the exercises and questions in a cell."""
    source = source_of(cell)
    words = set(re.findall(r"\w+", source)) if is_marked(source, "exercise") else ()
    return exercises_in(cell) + [one.name for one in questions() if one.name in words]


def write_workbook(folder: Path) -> Path:
    """Write a workbook that uses the trained translator, and return its folder."""
    make_workbook(folder)
    load_or_train()
    kept = folder_of(TranslatorConfig())
    shutil.copytree(kept, folder / "checkpoints" / kept.name)
    return folder
