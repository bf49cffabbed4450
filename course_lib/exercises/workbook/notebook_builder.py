"""Turn a completed chapter into the learner's version, with stubs and hints but no outputs."""

import ast
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.public_issues import report_link
from course_lib.exercises.library import stubs
from course_lib.exercises.library.package import LIBRARY

SUMMARY = "<summary>Solution</summary>"
SOLUTION = re.compile(r"<details>\s*<summary>Solution.*?</details>[ \t]*\n*", re.S)
FIRST = "**Exercise 1."
NOTE = (  # after the first exercise
    "\n\n**How exercises work.** If a line says `my_… = ...`, replace the dots with your answer, "
    "and run the cell. It shows ✓ or the first thing that is wrong. A cell with `raise "
    "NotImplementedError` is yours, too: replace that line with your own code. Until your version "
    "passes, the chapter uses the course's definition, so the cells below run. {help}"
)
NUMBERED = "[0-9][0-9]_*.ipynb"
SIDE_TRIPS = "side_trips"  # the folder of the side trips, next to the chapters
NAVIGATION = "navigation"  # the id of the last cell: it links the chapters before and after
EXPLAINED = ("00_", "01_")  # only these chapters explain how exercises work
EDITIONS = ("You are in the completed edition now.", "You are in your workbook now.")  # chapter 00
HELP = {
    True: "Below a definition you can open a hint and the solution.",
    False: "Below a definition you can open a hint.",
}
PLACE = "/path/to/the/course"  # in the first code cell, which says how to install the course
KEEP = (
    "**Your library.** The next cell takes the cells that passed, tests them without the rest of "
    "the notebook, and writes them to `my_lib/{module}.py`. Later chapters import your definitions "
    "from there."
)
USUAL = "import math\n\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
AT_THE_ROOT = """import os

if os.path.basename(os.getcwd()) == "side_trips":
    os.chdir("..")  # your workbook, which contains my_lib
"""
STAND_INS = """
from course_lib.exercises import attempt, export_mine

# until your version passes, the chapter uses the course's version
"""

Cell = dict[str, Any]
FOLDED: Cell = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}  # in Lab, on the site


@dataclass(frozen=True)
class Chapter:
    """A completed chapter or side trip: its path in ``notebooks/`` and its notebook."""

    file: str
    notebook: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Chapter":
        """Read a chapter or side trip."""
        folder = f"{SIDE_TRIPS}/" if path.parent.name == SIDE_TRIPS else ""
        return cls(folder + path.name, json.loads(path.read_text(encoding="utf-8")))

    @property
    def cells(self) -> list[Cell]:
        """Return all cells."""
        return self.notebook["cells"]

    @property
    def sources(self) -> list[str]:
        """Return the source of each code cell."""
        return [source_of(cell) for cell in self.cells if cell["cell_type"] == "code"]

    @cached_property
    def module(self) -> str | None:
        """Return the module of ``course_lib`` to which the notebook exports, if any."""
        pattern = r"^#\|[ \t]*(?:default_exp|export)[ \t]+(\w+)"
        marks = (re.search(pattern, source, re.M) for source in self.sources)
        return next((mark[1] for mark in marks if mark), None)

    @cached_property
    def exported(self) -> list[str]:
        """List the names that the chapter exports, including constants, in order."""
        marked = (source for source in self.sources if is_marked(source, "export"))
        return [name for source in marked for name in stubs.exported(source)]

    @property
    def last_import(self) -> int:
        """Return the index of the last of the import cells, which come before all other code."""
        kinds = [*(cell["cell_type"] for cell in self.cells), "markdown"]
        return kinds.index("markdown", kinds.index("code")) - 1

    def explains(self, place: int) -> bool:
        """Return whether the cell after an exercise (``#| exercise``) has its solution."""
        pair = [source_of(cell) for cell in self.cells[max(place, 0) : place + 2]]
        return len(pair) == 2 and is_marked(pair[0], "exercise") and bool(SOLUTION.search(pair[1]))


@dataclass(frozen=True)
class Edition:
    """An edition of the workbook; it turns chapters into the learner's versions."""

    exercises: Mapping[str, Exercise]
    modules: frozenset[str]  # those in the learner's own library
    solutions: bool = True
    repository: str = ""  # the address of the course's, if it is known

    def notebook(self, chapter: Chapter) -> dict[str, Any]:
        """Return the learner's version of a chapter."""
        worked = chapter.notebook["metadata"]
        # with another version, JupyterLab would mark the notebook as changed when it is opened
        language = {**worked["language_info"], "version": platform.python_version()}
        metadata = {"kernelspec": worked["kernelspec"], "language_info": language}
        return {**chapter.notebook, "metadata": metadata, "cells": list(self._cells(chapter))}

    def _cells(self, chapter: Chapter) -> Iterator[Cell]:
        """Yield the cells of the learner's version, including the cells that we add."""
        last_import = chapter.last_import
        if chapter.file.startswith(SIDE_TRIPS) and self.modules:
            yield new_cell("at-the-root", AT_THE_ROOT, "code", FOLDED)
        for place, cell in enumerate(chapter.cells):
            if cell["cell_type"] == "code":
                yield from self._code(cell, explained=chapter.explains(place))
            elif cell["id"] != NAVIGATION:
                explained = chapter.explains(place - 1)
                answer = answer_in(chapter.cells[place - 1]) if explained else ""
                noted = chapter.file.startswith(EXPLAINED) and FIRST in source_of(cell)
                yield from self._prose(cell, answer, NOTE if noted else "")
            if place == last_import and chapter.module and chapter.exported:
                yield new_cell("stand-ins", fallback_cell(chapter), "code", cell["metadata"])
                yield from self._whose_model(chapter.cells[: place + 1])
        if not self.exercises.keys().isdisjoint(chapter.exported):
            yield new_cell("into-your-library", KEEP.format(module=chapter.module))
            yield new_cell("export-mine", "export_mine()", "code")
        for cell in chapter.cells:
            if cell["id"] == NAVIGATION:
                report = report_link(Path(chapter.file).name, self.repository)
                yield new_cell(NAVIGATION, source_of(cell) + report)

    def _whose_model(self, cells: Sequence[Cell]) -> Iterator[Cell]:
        """If the cells import a model, yield a cell that lists which parts the learner wrote."""
        imports = "\n".join(source_of(cell) for cell in cells if cell["cell_type"] == "code")
        imports = stubs.from_package(imports, self.modules, LIBRARY)
        lines = map(ast.unparse, ast.parse(imports).body)
        mine = " ".join(line for line in lines if line.startswith(f"from {LIBRARY}."))
        wanted = sorted(re.findall(r"\b(?:Transformer|load_or_train)\b", mine))
        if "Transformer" in wanted:
            text = "from course_lib.exercises import parts_of_yours\n\nprint(parts_of_yours({}))"
            yield new_cell("parts-of-yours", text.format(", ".join(wanted)), "code")

    def _code(self, cell: Cell, explained: bool) -> Iterator[Cell]:
        """Yield the learner's version of a code cell, and the hints below it."""
        worked = source_of(cell)
        if self.repository:
            worked = worked.replace(PLACE, f"git+{self.repository}")
        if call := stubs.guess_call(worked):
            yield new_cell(cell["id"], stubs.without_explanation(call, worked), "code")
            return
        source = stubs.without_checks(worked, self.exercises)
        if source != worked and not ast.parse(source).body:
            return
        source = stubs.from_package(source, self.modules, LIBRARY)
        help = []
        if is_marked(worked, "export"):
            names = [name for name in stubs.defined(worked) if name in self.exercises]
            found = [self.exercises[name] for name in names]
            source = stubs.stub(source, [stub for exercise in found for stub in exercise.stubs])
            attempts = [f'{name} = attempt("{name}", {name})' for name in names]
            source = "\n\n".join([source.rstrip("\n"), *attempts])
            help += [folded_hints("Hint", exercise.hints) for exercise in found if exercise.hints]
            bodies = [stubs.solution(worked, name) for name in names]
            help += [folded("Solution", fenced(body)) for body in bodies if self.solutions]
        elif is_marked(worked, "exercise"):
            source = stubs.without_answers(source)
            if self.solutions and not explained:
                help.append(folded("Solution", fenced(answer_in(cell))))
        yield new_cell(cell["id"], source, "code", cell["metadata"])
        if help:
            yield new_cell(f"{cell['id']}-help", "\n\n".join(help))

    def _prose(self, cell: Cell, answer: str, note: str) -> Iterator[Cell]:
        """Yield a text cell and a note; if it explains the exercise above, insert the answer."""
        text = source_of(cell) + note.format(help=HELP[self.solutions])
        if answer:
            text = text.replace(SUMMARY, f"{SUMMARY}\n\n{fenced(answer)}", 1)
        if not self.solutions:
            text = SOLUTION.sub("", text)
        text = text.replace(*EDITIONS)
        if text.strip():
            yield new_cell(cell["id"], text, cell["cell_type"], cell["metadata"])


def notebooks_in(folder: Path) -> list[Path]:
    """List the chapters in a folder, each followed by its side trips."""
    found = [*folder.glob(NUMBERED), *(folder / SIDE_TRIPS).glob(NUMBERED)]
    return sorted(found, key=lambda path: (path.name[:2], path.parent != folder, path.name))


def source_of(cell: Cell) -> str:
    """Return a cell's text."""
    return "".join(cell["source"])


def is_marked(source: str, mark: str) -> bool:
    """Return whether a cell has a directive, such as ``#| export`` or ``#| export MODULE``."""
    return re.search(rf"^#\|[ \t]*{mark}([ \t]+\w+)?[ \t]*$", source, re.M) is not None


def answer_in(cell: Cell) -> str:
    """Return the answer to an exercise, without the directive in its first line."""
    return source_of(cell).partition("\n")[2]


def new_cell(name: str, text: str, kind: str = "markdown", metadata: Cell | None = None) -> Cell:
    """Make a cell without outputs."""
    cell = {"cell_type": kind, "id": name, "metadata": dict(metadata or {})}
    code: Cell = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return cell | code | {"source": text.splitlines(keepends=True)}


def folded(title: str, text: str) -> str:
    """Put text into a collapsed section with a title."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def folded_hints(title: str, hints: Sequence[str]) -> str:
    """Put hints into collapsed sections, each nested in the previous one."""
    first, *plainer = hints
    inner = f"\n\n{folded_hints('A plainer hint', plainer)}" if plainer else ""
    return folded(title, first + inner)


def fenced(source: str) -> str:
    """Format source as code."""
    return f"```python\n{source}\n```"


def fallback_cell(chapter: Chapter) -> str:
    """Return the cell that imports the course's version of every name that a chapter exports."""
    module, names = str(chapter.module), chapter.exported
    listed = ", ".join(names)
    if len(module) + len(listed) > 76:  # the line would have more than 100 characters
        listed = "(\n" + "".join(f"    {name},\n" for name in names) + ")"
    return f"{USUAL}{STAND_INS}from course_lib.{module} import {listed}"
