"""Replace the bodies of finished source by stubs, and keep every other character."""

import ast
from collections.abc import Callable, Collection, Iterator

Definition = ast.FunctionDef | ast.ClassDef
# the first line and the line after the last (from 0), and the new lines
Edit = tuple[int | None, int | None, list[str]]

STUB = "raise NotImplementedError"
MINE = "my_"


def defined(source: str) -> dict[str, Definition]:
    """Find the functions and classes that a cell defines, by name."""
    return {node.name: node for node in ast.parse(source).body if isinstance(node, Definition)}


def exported(source: str) -> list[str]:
    """List the names that a cell defines, including constants, in order."""
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, Definition):
            names.append(node.name)
        names += [target.id for target in _targets(node)]
    return names


def stub(source: str, names: Collection[str]) -> str:
    """Replace the bodies of some definitions by ``raise NotImplementedError``.

    A class's name stands for all of its methods, and ``"Engine.step"`` for one of them. Names that
    the source does not define are ignored.
    """
    chosen = [function for name in names for function in _named(source, name)]
    return _edited(source, lambda lines: [_stubbed(function, lines) for function in chosen])


def without(source: str, gone: Callable[[ast.stmt], bool]) -> str:
    """Remove the lines of some statements."""
    cut = {line for node in ast.parse(source).body if gone(node) for line in _lines_of(node)}
    lines = source.split("\n")
    return "\n".join(line for n, line in enumerate(lines) if n not in cut).strip("\n")


def without_answers(source: str) -> str:
    """Replace every body, and the value of every ``my_… = value``, by a blank for the learner."""
    source = stub(source, defined(source))
    answers = [
        node
        for node in ast.parse(source).body
        if (targets := _targets(node)) and all(name.id.startswith(MINE) for name in targets)
    ]
    return _edited(source, lambda lines: [_unanswered(node, lines) for node in answers])


def without_checks(source: str, names: Collection[str]) -> str:
    """Remove the lines ``check("NAME", NAME)`` of some definitions."""
    found = [node for node in ast.parse(source).body if _checked(node) in names]
    left = _edited(source, lambda lines: [(n.lineno - 1, n.end_lineno, []) for n in found])
    return left.rstrip("\n") if found else left


def from_package(source: str, modules: Collection[str], package: str) -> str:
    """Make ``from course_lib.MODULE import …`` import from a package that has some of the modules.

    Raises:
        ValueError: If one of the modules is imported in another way.
    """
    ours = {f"course_lib.{module}" for module in modules}

    def redirected(lines: list[str]) -> Iterator[Edit]:
        """Yield every import line with the package's name replaced."""
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module in ours:
                changed = lines[node.lineno - 1].replace("course_lib", package, 1)
                yield node.lineno - 1, node.lineno, [changed]
            elif isinstance(node, ast.Import | ast.ImportFrom) and ours & _imported(node):
                raise ValueError(f"write `from course_lib.… import`, not `{ast.unparse(node)}`")

    return _edited(source, redirected)


def solution(source: str, name: str) -> str:
    """Return the body of a function, or a class without its docstrings."""
    node, lines = defined(source)[name], source.split("\n")
    if not isinstance(node, ast.ClassDef):
        first, last = _body(node, lines)
        return "\n".join(lines[first:last])
    said = set()
    for part in (node, *_outer(node)):
        if _docstring(part) is not None:
            first, last = _docstring(part).lineno - 1, _docstring(part).end_lineno
            while last < node.end_lineno and not lines[last].strip():
                last += 1
            said |= set(range(first, last))
    kept = range(_first_line(node), node.end_lineno)
    return "\n".join(lines[n] for n in kept if n not in said)


def _edited(source: str, edits: Callable[[list[str]], Collection[Edit] | Iterator[Edit]]) -> str:
    """Apply edits from the last to the first, so that line numbers stay valid."""
    lines = source.split("\n")
    for first, last, new in sorted(edits(list(lines)), reverse=True):
        lines[first:last] = new
    return "\n".join(lines)


def _outer(node: Definition) -> Iterator[ast.FunctionDef]:
    """Yield a function, or the methods of a class, but no functions inside functions."""
    if not isinstance(node, ast.ClassDef):
        yield node
        return
    for part in node.body:
        if isinstance(part, Definition):
            yield from _outer(part)


def _named(source: str, name: str) -> Iterator[ast.FunctionDef]:
    """Yield a function, the methods of a class, or one of its methods."""
    outer, _, method = name.partition(".")
    node = defined(source).get(outer)
    if node is not None:
        yield from (f for f in _outer(node) if method in ("", f.name))


def _stubbed(function: ast.FunctionDef, lines: list[str]) -> Edit:
    """Return the edit that keeps only the signature and the docstring of a function."""
    return *_body(function, lines), [" " * (function.col_offset + 4) + STUB]


def _body(function: ast.FunctionDef, lines: list[str]) -> tuple[int | None, int | None]:
    """Find the lines of a body, with its comments but without its docstring."""
    docstring = _docstring(function)
    first = docstring.end_lineno if docstring else _first_line(function.body[0])
    while not docstring and lines[first - 1].lstrip()[:1] in ("", "#"):
        first -= 1
    last = function.end_lineno
    for number, line in enumerate(lines[last:], start=last + 1):
        text = line.lstrip()
        if text and len(line) - len(text) <= function.col_offset:
            break
        last = number if text else last
    return first, last


def _docstring(node: Definition) -> ast.stmt | None:
    """Return the docstring's statement."""
    return node.body[0] if ast.get_docstring(node, clean=False) is not None else None


def _first_line(node: ast.stmt) -> int:
    """Return the line, from 0, on which a statement or its first decorator begins."""
    return min(n.lineno for n in (node, *getattr(node, "decorator_list", []))) - 1


def _lines_of(node: ast.stmt) -> range:
    """Return the lines of a statement and its decorators, from 0."""
    return range(_first_line(node), node.end_lineno)


def _unanswered(node: ast.Assign, lines: list[str]) -> Edit:
    """Return the edit that replaces a value by ``...``."""
    after = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()  # ast counts bytes
    node.value = ast.Constant(...)
    return node.lineno - 1, node.end_lineno, [ast.unparse(node) + after]


def _targets(node: ast.stmt) -> list[ast.Name]:
    """List the names that a statement assigns to."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target for target in targets if isinstance(target, ast.Name)]


def _checked(node: ast.stmt) -> str | None:
    """Return the name in ``check("NAME", NAME)``, or ``None`` for any other line."""
    match node:
        case ast.Expr(ast.Call(ast.Name("check"), [ast.Constant(said), ast.Name(name)], [])):
            return name if said == name else None
    return None


def _imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    """List the full names of the modules that an import may mean."""
    inside = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return {inside + alias.name for alias in node.names}
