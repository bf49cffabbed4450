"""Prove on the file what passed in the notebook: there, the notebook's names are missing."""

import ast
import io
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from course_lib.atomic_write import beside
from course_lib.exercises.check import examine
from course_lib.exercises.module_writer import NOTEBOOK_ONLY, Manuscript, missing, owners
from course_lib.exercises.report import Report
from course_lib.exercises.stubs import defined


class BrokenImports(ValueError):
    """Say that a chapter's imports do not run, so that nothing can be proved."""


@dataclass(frozen=True)
class Proof:
    """Hold what a manuscript is proved with.

    Args:
        manuscript: What is put together.
        path: The file that it is for; it is tried in a file beside.
        known: The names that the notebook has.
        imports: Those of them that are imports there, each with the line that imports it.
    """

    manuscript: Manuscript
    path: Path
    known: Collection[str] = ()
    imports: Mapping[str, str] = field(default_factory=dict)

    def failing(self, chosen: Mapping[str, str], only: Collection[str] = ()) -> dict[str, str]:
        """Run the module beside its file, and examine the learner's definitions in it.

        Args:
            chosen: The definitions that are the learner's: for each name its cell.
            only: Which of them to examine; all unless given.

        Returns:
            For each definition that does not pass, why not.

        Raises:
            BrokenImports: If the chapter's imports do not run.
        """
        text = self.manuscript.text(chosen)
        module = ModuleType(f"{self.path.parent.name}_{self.path.stem}_tried")
        with beside(self.path) as file, _known_as(module):
            file.write_text(text, encoding="utf-8", newline="")
            try:
                code = compile(text, str(file), "exec", dont_inherit=True)
                lost = dict(self._elsewhere(chosen, text))
                if not lost:
                    exec(code, vars(module))
            except (Exception, SystemExit) as error:  # whatever a learner's cell raises
                return dict.fromkeys(*_blame(text, error, str(file)))
            flaws = {name: _flaw(name, module) for name in only or chosen} if not lost else lost
        twice = dict(self._twice(chosen))
        return {name: twice.get(name, words) for name, words in flaws.items() if words}

    def _elsewhere(self, chosen: Mapping[str, str], text: str) -> Iterator[tuple[str, str]]:
        """Find what cells use that only the notebook has, and say so for their exercises."""
        for names, piece in self.manuscript.pieces(chosen):
            for used in missing(piece, text):
                if used in NOTEBOOK_ONLY or used in self.known:
                    line = self.imports.get(used, "")
                    yield from ((name, _way_out(name, used, line)) for name in names)

    def _twice(self, chosen: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Find helpers that two cells define differently, and say so for their exercises."""
        helpers = [
            (names, helper, ast.unparse(node))
            for names, piece in self.manuscript.pieces(chosen)
            for helper, node in defined(piece).items()
            if helper not in chosen
        ]
        for names, helper, text in helpers:
            if any(h == helper and other != text for _, h, other in helpers):
                words = f"`{helper}` is defined in its cell, and otherwise in another exercise's: "
                yield from ((name, f"{words}rename one of the two") for name in names)


def settle(proof: Proof, options: Mapping[str, Sequence[str]]) -> tuple[dict, dict[str, str]]:
    """Take as much from the learner as passes in one file.

    Args:
        proof: Finds what does not pass.
        options: For each exercise the learner's cells, the one to be preferred first.

    Returns:
        The cell that is taken for each name; and why a preferred one was not.
    """
    chosen = {name: cells[0] for name, cells in options.items() if cells}
    reasons: dict[str, str] = {}
    while failing := proof.failing(chosen):
        reasons |= failing
        chosen = {name: cell for name, cell in chosen.items() if name not in failing}
    for name in reasons:  # some failed only because another one was wrong
        for cell in options[name]:
            more = {**chosen, name: cell}
            failing = proof.failing(more, only={name}) or proof.failing(more)
            if not failing:
                chosen = more
                break
            if cell is options[name][0]:
                reasons[name] = failing.get(name) or f"with it, {' '.join(failing.values())}"
    kept = {name for name in chosen if chosen[name] is options[name][0]}
    return chosen, {name: words for name, words in reasons.items() if name not in kept}


def asked(look: Callable[[str, Any], Report], name: str, candidate: Any) -> Report:
    """Check or examine a candidate, even one that ends the program."""
    try:
        return look(name, candidate)
    except SystemExit:
        hint = "This ends the whole program (exit or quit); return, or raise an error, instead."
        return Report(name, False, hint=hint, kind="runs")


def _flaw(name: str, module: ModuleType) -> str:
    """Say what is wrong with a definition in a module; nothing if it passes."""
    if not hasattr(module, name):
        return "its cell takes the name away again"
    report = asked(examine, name, getattr(module, name))
    return "" if report.passed else report.hint


def _way_out(name: str, used: str, line: str) -> str:
    """Say what a cell needs from elsewhere, and what to do: there may be a line to import it."""
    if used == "get_ipython":
        return "its cell has a line with % or !, which no file can hold: move it out of the cell"
    if line:
        return f"`{name}` uses `{used}`: write `{line}` at the top of this cell"
    where = "which stands in another cell of the notebook: move it into the cell of"
    return f"`{name}` uses `{used}`, {where} `{name}`"


def _blame(text: str, error: BaseException, file: str) -> tuple[list[str], str]:
    """Name the exercises in whose cell a module broke off, and say with what.

    Raises:
        BrokenImports: If it was in the imports.
    """
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines = [error.lineno]
    names = owners(text, lines[0]) if lines else []
    said = f"{type(error).__name__}: {error}".partition("\n")[0]
    if not names:
        raise BrokenImports(
            f"the chapter's imports do not run ({said}): mend the cell with `#| default_exp`, "
            "run it, and then this one again"
        ) from None
    return names, f"its cell does not run as a file ({said}): leave there what it needs, no more"


@contextmanager
def _known_as(module: ModuleType) -> Iterator[None]:
    """Let Python find a module by its name for a while, and keep silent what it prints."""
    sys.modules[module.__name__] = module
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        del sys.modules[module.__name__]
