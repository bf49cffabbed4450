"""What a learner typed in a chapter, put together as a module: text in, text out."""

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from course_lib.exercises.notebook_builder import imported
from course_lib.exercises.source_analysis import (
    DIRECTIVE,
    TOP,
    asks,
    bound,
    import_lines,
    is_import,
    is_text,
    used,
    with_imports,
    without,
    without_repeated_imports,
)
from course_lib.exercises.stubs import STUB, exported
from course_lib.exercises.unused_statements import Sorted, sort_out

NOTEBOOK_ONLY = {"get_ipython", "display"}  # built in where a notebook runs, and nowhere else
MARK = "# %% yours: "  # stands above every cell of the learner in the file
NOTE = "# export_mine() writes this file from your notebook: change your cell there, run both."
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Manuscript:
    """Hold what is the same whichever definitions are taken from the learner.

    Args:
        module: The chapter's module, such as ``"attention"``.
        title: Its docstring.
        everything: All names of the course's module, in its order.
        imports: The text of the imports.
    """

    module: str
    title: str
    everything: Sequence[str]
    imports: str

    def text(self, chosen: Mapping[str, str]) -> str:
        """Put the module together.

        Args:
            chosen: The definitions that are the learner's: for each name its cell.

        Returns:
            The text of the module; what is not chosen, it hands on from ``course_lib``.
        """
        handed_on = [name for name in self.everything if name not in chosen]
        names, pieces = zip(*self.pieces(chosen), strict=True) if chosen else ((), ())
        imports, *pieces = without_repeated_imports([self.imports, *pieces])
        head = [f'"""{self.title}"""', NOTE, imports]
        if handed_on:
            head.append(imported(f"course_lib.{self.module}", handed_on))
        head.append(
            "\n".join(["__all__ = [", *(f'    "{name}",' for name in self.everything), "]"])
        )
        parts = map("{}{}\n{}".format, [MARK] * len(names), map(", ".join, names), pieces)
        return "\n\n\n".join(["\n\n".join(filter(None, head)), *parts]) + "\n"

    def pieces(self, chosen: Mapping[str, str]) -> list[tuple[list[str], str]]:
        """Return what is kept of each cell, with the names it is taken for, in chapter order."""
        return [(names, piece.text) for names, piece in self._sorted(chosen)]

    def left_out(self, chosen: Mapping[str, str]) -> dict[str, Sequence[str]]:
        """Return for each name the lines of its cell that only try something out."""
        return {name: piece.left_out for names, piece in self._sorted(chosen) for name in names}

    def _sorted(self, chosen: Mapping[str, str]) -> list[tuple[list[str], Sorted]]:
        """Sort every cell out, with the names it is taken for, in chapter order."""
        cells: dict[str, list[str]] = {}
        for name in self.everything:
            if name in chosen:
                cells.setdefault(chosen[name], []).append(name)
        texts = [
            trimmed(cell, [name for name in self.everything if name not in names])
            for cell, names in cells.items()
        ]
        return list(zip(cells.values(), sort_out(texts, list(chosen)), strict=True))


def earlier(text: str, names: Collection[str], imports: str) -> dict[str, str]:
    """Return the learner's cells that a module of theirs holds already.

    Args:
        text: The module.
        names: The exercises of the chapter.
        imports: The chapter's imports; what a cell needs beyond them is put above it.
    """
    head, *cells = re.split(rf"^{MARK}.*\n", text, flags=re.M)
    typed = without(head, lambda n: is_import(n) or is_text(n) or "__all__" in bound([n]))
    cells = [typed.replace(NOTE, "").strip("\n"), *(cell.strip("\n") for cell in cells)]
    known = bound(ast.parse(imports).body) | set(names)
    lines = {n: line for n, line in import_lines(ast.parse(text).body).items() if n not in known}
    found = {name: cell for cell in cells for name in exported(cell) if name in names}
    return {name: with_imports(cell, lines) for name, cell in found.items()}


def owners(text: str, line: int) -> list[str]:
    """Name the exercises whose cell stands at a line of a module's text, counted from 1."""
    above = [row for row in text.split("\n")[:line] if row.startswith(MARK)]
    return above[-1].removeprefix(MARK).split(", ") if above else []


def is_stub(cell: str, name: str) -> bool:
    """Say whether every function in a definition only raises ``NotImplementedError``."""
    found = [node for node in ast.parse(cell).body if getattr(node, "name", "") == name]
    functions = [n for node in found[-1:] for n in ast.walk(node) if isinstance(n, FUNCTION)]
    bodies = [f.body[ast.get_docstring(f) is not None :] for f in functions]
    said = {"; ".join(map(ast.unparse, body)) for body in bodies}
    return said == {STUB}


def trimmed(cell: str, others: Collection[str] = ()) -> str:
    """Leave out directives, the lines that ask for a check, and definitions of *others*."""
    top = TOP.match(cell)[0]
    code = DIRECTIVE.sub("", top) + cell.removeprefix(top)
    return without(code, lambda node: asks(node) or bool(bound([node]) & set(others)))


def imports_of(text: str, module: str) -> str:
    """Return the imports of a cell or file, without those from the module's own namesake."""
    own = f"course_lib.{module}"
    kept = without(text, lambda n: not is_import(n) or getattr(n, "module", None) == own)
    code = "\n".join(line for line in kept.split("\n") if not line.startswith("#"))
    return re.sub(r"\n{3,}", "\n\n", code).strip("\n")


def missing(piece: str, text: str) -> Iterator[str]:
    """Yield the names that a cell uses and its module lacks."""
    there = bound(ast.parse(text).body) | set(dir(builtins)) - NOTEBOOK_ONLY
    if re.search(r"^from \S+ import \*", text, re.M):
        return  # nobody can tell which names came in
    for node in ast.parse(piece).body:
        yield from sorted(used(ast.unparse(node)) - there)
