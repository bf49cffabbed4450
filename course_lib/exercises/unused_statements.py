"""What a cell only tries out, told from what its definitions need."""

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

from course_lib.exercises.source_analysis import (
    DEFINITION,
    bound,
    is_import,
    is_text,
    used,
    without_places,
)

LONG = 60  # characters that are shown of a line


@dataclass(frozen=True)
class Sorted:
    """Hold what becomes of a cell.

    Args:
        text: What is kept, with every character of it.
        left_out: The lines that only try something out, shortened.
    """

    text: str
    left_out: tuple[str, ...] = ()


def sort_out(cells: Sequence[str], names: Collection[str]) -> list[Sorted]:
    """Keep imports, functions, classes, and the assignments that these use; leave out the rest.

    Args:
        cells: The cells of one module, which may use each other's names.
        names: The names that the module is for; what defines them is kept in any form.
    """
    bodies = [ast.parse(cell).body for cell in cells]
    nodes = list(chain(*bodies))
    kept = [node for node in nodes if _lasts(node) or bound([node]) & set(names)]
    while more := _serving([node for node in nodes if node not in kept], kept):
        kept += more
    return [_sorted(cell, body, kept) for cell, body in zip(cells, bodies, strict=True)]


def _lasts(node: ast.stmt) -> bool:
    """Say whether a statement is kept, used or not."""
    return isinstance(node, DEFINITION) or is_import(node) or is_text(node)


def _serving(nodes: Sequence[ast.stmt], kept: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that give a value which is used, or change what is kept."""
    if not nodes:
        return []
    needed = set().union(*(used(ast.unparse(node)) for node in kept))
    there = needed | bound(kept)
    return [node for node in nodes if bound([node]) & needed or _changed(node) & there]


def _changed(node: ast.stmt) -> set[str]:
    """Return the names of which an assignment changes a part."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return {_owner(target) for target in targets if not isinstance(target, ast.Name)}


def _owner(target: ast.expr) -> str:
    """Name what an assignment to ``NAME.part`` or ``NAME[part]`` changes."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return getattr(target, "id", "")


def _sorted(cell: str, body: Sequence[ast.stmt], kept: Sequence[ast.stmt]) -> Sorted:
    """Take the statements that are not kept out of a cell."""
    gone = [node for node in body if node not in kept]
    text = without_places(cell, {(node.lineno, node.col_offset) for node in gone})
    return Sorted(text, tuple(_shown(node) for node in gone))


def _shown(node: ast.stmt) -> str:
    """Return the first line of a statement, shortened."""
    line = ast.unparse(node).partition("\n")[0]
    return f"`{line}`" if len(line) <= LONG else f"`{line[:LONG]}…`"
