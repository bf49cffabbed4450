"""Replace function bodies in source code with stubs, and keep every other character."""

import ast
from collections.abc import Callable, Collection, Iterator

Definition = ast.FunctionDef | ast.ClassDef
# the first line and the line after the last (zero-based), and the new lines
Edit = tuple[int, int, list[str]]

STUB = "raise NotImplementedError"
MINE = "my_"


def defined(source: str) -> dict[str, Definition]:
    """Map names to the functions and classes that a cell defines."""
    return {node.name: node for node in ast.parse(source).body if isinstance(node, Definition)}


def exported(source: str) -> list[str]:
    """List the names that a cell defines, including constants, in order."""
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, Definition):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


def stub(source: str, names: Collection[str]) -> str:
    """Replace the bodies of some definitions with ``raise NotImplementedError``.

    A class's name stands for all of its methods, and ``"Engine.step"`` for one of them. Names that
    the source does not define are ignored.
    """
    lines, edits = source.split("\n"), []
    for name in names:
        outer, _, method = name.partition(".")
        for function in _functions(defined(source).get(outer)):
            if method in ("", function.name):
                blank = " " * (function.col_offset + 4) + STUB
                edits.append((*_body(function, lines), [blank]))
    return _edited(source, edits)


def without(source: str, gone: Callable[[ast.stmt], bool]) -> str:
    """Remove the lines of the statements for which ``gone`` returns True."""
    cut = {(_first_line(node), _end(node)) for node in ast.parse(source).body if gone(node)}
    return _edited(source, [(*place, []) for place in cut]).strip("\n")


def without_answers(source: str) -> str:
    """Replace every body, and the value of every ``my_… = value``, with a blank for the learner."""
    source = stub(source, defined(source))
    lines, edits = source.split("\n"), []
    for node in ast.parse(source).body:
        match node:
            case ast.Assign([ast.Name(name)]) if name.startswith(MINE):
                last = lines[_end(node) - 1].encode()  # ast counts bytes
                after = last[node.end_col_offset :].decode()
                edits.append((node.lineno - 1, _end(node), [f"{name} = ...{after}"]))
    return _edited(source, edits)


def without_checks(source: str, names: Collection[str]) -> str:
    """Remove the lines ``check("NAME", NAME)`` for some definitions."""
    checks = {f"check('{name}', {name})" for name in names}
    if checks.isdisjoint(map(ast.unparse, ast.parse(source).body)):
        return source
    return without(source, lambda node: ast.unparse(node) in checks)


def guess_call(source: str) -> ast.Call | None:
    """Return the call with which a cell asks for a guess, or ``None`` for any other cell."""
    if not source.startswith("guess("):
        return None
    match ast.parse(source).body:
        case [ast.Expr(ast.Call(ast.Name("guess")) as call)]:
            return call
    return None


def without_explanation(call: ast.Call, source: str) -> str:
    """Return the source of a guess without its second argument, the explanation."""
    kept = [call.args[0], *call.keywords]
    parts = [ast.get_source_segment(source, node) or "" for node in kept]
    line = f"guess({', '.join(parts)})"
    if len(line) <= 100 and "\n" not in line:
        return line
    return "guess(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def from_package(source: str, modules: Collection[str], package: str) -> str:
    """Make ``from course_lib.MODULE import …`` import from a package if the package has the module.

    Raises ValueError if one of the modules is imported in a different way.
    """
    ours = {f"course_lib.{module}" for module in modules}
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in ours:
            lines[node.lineno - 1] = lines[node.lineno - 1].replace("course_lib", package, 1)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            inside = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            if ours & {inside + alias.name for alias in node.names}:
                raise ValueError(f"write `from course_lib.… import`, not `{ast.unparse(node)}`")
    return "\n".join(lines)


def solution(source: str, name: str) -> str:
    """Return the body of a function, or an entire class without its docstrings."""
    node, lines = defined(source)[name], source.split("\n")
    if not isinstance(node, ast.ClassDef):
        first, last = _body(node, lines)
        return "\n".join(lines[first:last])
    edits: list[Edit] = []
    parts: list[Definition] = [node, *_functions(node)]
    for docstring in filter(None, map(_docstring, parts)):
        last = _end(docstring)
        while last < _end(node) and not lines[last].strip():
            last += 1
        edits.append((docstring.lineno - 1, last, []))
    shown = "\n".join(lines[: _end(node)])
    return "\n".join(_edited(shown, edits).split("\n")[_first_line(node) :])


def _edited(source: str, edits: Collection[Edit]) -> str:
    """Apply edits from the last to the first, so that line numbers stay valid."""
    lines = source.split("\n")
    for first, last, new in sorted(edits, reverse=True):
        lines[first:last] = new
    return "\n".join(lines)


def _functions(node: ast.AST | None) -> Iterator[ast.FunctionDef]:
    """Yield a function, or the methods of a class, but no nested functions."""
    if isinstance(node, ast.FunctionDef):
        yield node
    elif isinstance(node, ast.ClassDef):
        for part in node.body:
            yield from _functions(part)


def _body(function: ast.FunctionDef, lines: list[str]) -> tuple[int, int]:
    """Find the lines of a body, with its comments but without its docstring."""
    docstring = _docstring(function)
    first = _end(docstring) if docstring else _first_line(function.body[0])
    while not docstring and lines[first - 1].lstrip()[:1] in ("", "#"):
        first -= 1
    last = _end(function)
    for number, line in enumerate(lines[last:], start=last + 1):
        text = line.lstrip()
        if text and len(line) - len(text) <= function.col_offset:
            break
        last = number if text else last
    return first, last


def _docstring(node: Definition) -> ast.stmt | None:
    """Return the statement that contains the docstring, if there is one."""
    return node.body[0] if ast.get_docstring(node, clean=False) is not None else None


def _end(node: ast.stmt) -> int:
    """Return the line number, counted from 1, of a statement's last line, which is never None."""
    return node.end_lineno or node.lineno


def _first_line(node: ast.stmt) -> int:
    """Return the zero-based number of the line where a statement or its first decorator begins."""
    return min(n.lineno for n in (node, *getattr(node, "decorator_list", []))) - 1
