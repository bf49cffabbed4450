"""What a notebook has run: which cell holds a definition, and which asks whether it is right."""

import ast
from collections.abc import Collection, Iterator, Sequence

from course_lib.exercises.module_writer import imports_of, trimmed
from course_lib.exercises.source_analysis import asks, directives, imports_in
from course_lib.exercises.stubs import exported


def chapter_module(history: Sequence[str]) -> str | None:
    """Return the module that the last run ``#| default_exp`` names."""
    words = [words for cell in parsed(history) for words in directives(cell)]
    named = [word for word, *names in words if word == "default_exp" for word in names]
    return named[-1] if named else None


def chapter_imports(history: Sequence[str], module: str) -> str:
    """Return the imports of a chapter's last run import cell, without the course's stand-ins."""
    for cell in reversed(parsed(history)):
        if ["default_exp", module] in directives(cell):
            return imports_of(cell, module)
    return ""


def last_cells(history: Sequence[str], names: Collection[str]) -> dict[str, str]:
    """Return the last run cell of every exercise, be it a stub."""
    return {name: parsed(history)[place] for name, place in _held(history, names).items()}


def apart(history: Sequence[str], names: Collection[str]) -> set[str]:
    """Find the exercises that were last asked for in a cell without what was asked about."""
    held, typed, asked = _held(history, names), {}, {}
    for place, cell in enumerate(parsed(history)):
        brought = dict(imports_in(ast.parse(cell).body))
        others = [n for n, line in brought.items() if not line.startswith("from course_lib.")]
        typed |= dict.fromkeys([*exported(trimmed(cell)), *others], place)
        asked |= {name: (place, plainly) for name, plainly in _asked(cell)}
    return {
        name
        for name, (place, plainly) in asked.items()
        if name in names and place > held.get(name, -1)
        if not plainly or typed.get(name, -1) > held.get(name, -1)
    }


def imported_names(history: Sequence[str]) -> dict[str, str]:
    """Return the names that are imports in the notebook, each with the line that imports it."""
    lines: dict[str, str] = {}
    for cell in parsed(history):
        for name in exported(cell):
            lines.pop(name, None)
        lines |= dict(imports_in(ast.parse(cell).body))
    return lines


def parsed(history: Sequence[str]) -> list[str]:
    """Leave out cells that are no Python: they changed nothing when they were run."""
    return [cell for cell in history if _parses(cell)]


def _held(history: Sequence[str], names: Collection[str]) -> dict[str, int]:
    """Find the last cell of each exercise: it is marked, or asks, and defines it."""
    held = {}
    for place, cell in enumerate(parsed(history)):
        if ["export"] in directives(cell) or any(map(asks, ast.parse(cell).body)):
            held |= {name: place for name in exported(trimmed(cell)) if name in names}
    return held


def _asked(cell: str) -> Iterator[tuple[str, bool]]:
    """Yield the exercises that a cell asks for, and whether about the same name."""
    for node in filter(asks, ast.parse(cell).body):
        match node.value.args:
            case [ast.Constant(str(name)), *rest]:
                yield name, [ast.unparse(part) for part in rest] == [name]


def _parses(cell: str) -> bool:
    """Say whether a text is Python."""
    try:
        compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
