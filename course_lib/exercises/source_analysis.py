"""What the statements of a text define, use and import, and a text without some of them."""

import ast
import re
import symtable
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

ASKED = {"attempt", "check", "predict", "score_test", "export_mine"}
TOP = re.compile(r"(?:[ \t]*(?:#.*)?(?:\n|$))*")  # what stands above the first statement
DIRECTIVE = re.compile(r"^#\s*\|(.*)\n?", re.M)
DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def without(text: str, gone: Callable[[ast.stmt], bool]) -> str:
    """Leave out statements; every other character stays as it was."""
    lines, body = text.split("\n"), ast.parse(text).body
    cut = {number for node in body if gone(node) for number in _lines_of(node)}
    if any(cut & set(_lines_of(node)) for node in body if not gone(node)):  # a = 1; b = 2
        return "\n".join(ast.unparse(node) for node in body if not gone(node))
    return "\n".join(line for n, line in enumerate(lines, start=1) if n not in cut).strip("\n")


def without_places(text: str, places: Collection[tuple[int, int]]) -> str:
    """Leave out the statements that begin at some lines and columns."""
    return without(text, lambda node: (node.lineno, node.col_offset) in places)


def bound(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that statements define."""
    table = symtable.symtable(ast.unparse(ast.Module(list(body), [])), "cell", "exec")
    return {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}


def used(text: str) -> set[str]:
    """Return the global names that a text reads."""
    tables, names = [symtable.symtable(text, "cell", "exec")], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        names |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and s.is_global()}
    return names


def directives(cell: str) -> list[list[str]]:
    """Return the words of the lines ``#| …`` at the top of a cell."""
    return [words.split() for words in DIRECTIVE.findall(TOP.match(cell)[0])]


def asks(node: ast.stmt) -> bool:
    """Say whether a statement is ``attempt(…)`` or the like, with or without ``NAME =``."""
    call = getattr(node, "value", None)
    return isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in ASKED


def is_import(node: ast.stmt) -> bool:
    """Say whether a statement is an import."""
    return isinstance(node, ast.Import | ast.ImportFrom)


def is_text(node: ast.stmt) -> bool:
    """Say whether a statement is only a text, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def imports_in(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield each name that statements import, with an import of it alone."""
    for node in filter(is_import, body):
        for alias in node.names:
            one = [ast.alias(alias.name, alias.asname)]
            if isinstance(node, ast.Import):
                yield alias.asname or alias.name.split(".")[0], ast.unparse(ast.Import(one))
            else:
                line = ast.unparse(ast.ImportFrom(node.module, one, node.level))
                yield alias.asname or alias.name, line


def import_lines(body: Sequence[ast.stmt]) -> dict[str, str]:
    """Return for each name that statements import the lines that it takes, the last ones."""
    lines: dict[str, list[str]] = {}
    for name, line in imports_in(body):
        before = [other for other in lines.get(name, ()) if other != line]
        same = [other for other in before if _source(name, other) == _source(name, line)]
        lines[name] = [*same, line]
    return {name: "\n".join(several) for name, several in lines.items()}


def without_repeated_imports(texts: Sequence[str]) -> list[str]:
    """Leave out the imports that stand above already, in their own text or in an earlier one.

    Where a name comes from several places, its imports stay: the last one counts.
    """
    bodies = [ast.parse(text).body for text in texts]
    sources: dict[str, set[str]] = {}
    for node in (node for body in bodies for node in body):
        for name, line in (
            imports_in([node]) if is_import(node) else ((n, "") for n in bound([node]))
        ):
            sources.setdefault(name, set()).add(_source(name, line))
    seen, left = set(), []
    for text, body in zip(texts, bodies, strict=True):
        repeated = set()
        for node in filter(is_import, body):
            found = dict(imports_in([node]))
            alone = all(len(sources[name]) == 1 and name != "*" for name in found)
            if alone and set(found.values()) <= seen:
                repeated.add((node.lineno, node.col_offset))
            seen |= set(found.values())
        left.append(without_places(text, repeated))
    return left


def with_imports(cell: str, imports: Mapping[str, str]) -> str:
    """Put above a cell the imports that it needs and lacks."""
    lacking = used(cell) - bound(ast.parse(cell).body)
    lines = [imports[name] for name in sorted(lacking & set(imports))]
    return "\n\n\n".join(filter(None, ["\n".join(lines), cell]))


def _source(name: str, line: str) -> str:
    """Return what tells where a name comes from: ``import a.b`` gives the same ``a`` as others."""
    return f"import {name}" if line.startswith(f"import {name}.") and " as " not in line else line


def _lines_of(node: ast.stmt) -> range:
    """Return the lines of a statement, its decorators included, counted from 1."""
    first = min(n.lineno for n in (node, *getattr(node, "decorator_list", [])))
    return range(first, node.end_lineno + 1)
