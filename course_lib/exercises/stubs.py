"""Turn finished source into what a learner starts from; every other character stays as it was."""

import ast
from collections.abc import Callable, Collection, Iterator

Definition = ast.FunctionDef | ast.ClassDef
# first line, the line after the last (from 0), what comes there
Edit = tuple[int | None, int | None, list[str]]

STUB = "raise NotImplementedError"
MINE = "my_"


def defined(source: str) -> dict[str, Definition]:
    """Find the functions and classes that a cell defines, by name."""
    return {node.name: node for node in ast.parse(source).body if isinstance(node, Definition)}


def exported(source: str) -> list[str]:
    """List what a cell defines, constants too, in order."""
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, Definition):
            names.append(node.name)
        names += [target.id for target in _targets(node)]
    return names


def stub(source: str, names: Collection[str]) -> str:
    """Replace the bodies of some definitions by ``raise NotImplementedError``.

    Signatures, decorators, docstrings, attributes of classes and the comments above stay.

    Args:
        source: A cell, or a module.
        names: Functions, classes of which every method becomes a stub, and single methods such as
            ``"Engine.step"``. Names that the source does not define are left out.
    """
    chosen = [function for name in names for function in _named(source, name)]
    return _edited(source, lambda lines: [_stubbed(function, lines) for function in chosen])


def without(source: str, gone: Callable[[ast.stmt], bool]) -> str:
    """Leave out statements, with all that stands on their lines."""
    cut = {line for node in ast.parse(source).body if gone(node) for line in _lines_of(node)}
    lines = source.split("\n")
    return "\n".join(line for n, line in enumerate(lines) if n not in cut).strip("\n")


def without_answers(source: str) -> str:
    """Replace every body, and the value of every ``my_… = value``, by what a learner fills in."""
    source = stub(source, defined(source))
    answers = [
        node
        for node in ast.parse(source).body
        if (targets := _targets(node)) and all(name.id.startswith(MINE) for name in targets)
    ]
    return _edited(source, lambda lines: [_unanswered(node, lines) for node in answers])


def without_checks(source: str, names: Collection[str]) -> str:
    """Drop the lines ``check("NAME", NAME)`` of some definitions."""
    found = [node for node in ast.parse(source).body if _checked(node) in names]
    left = _edited(source, lambda lines: [(n.lineno - 1, n.end_lineno, []) for n in found])
    return left.rstrip("\n") if found else left


def from_package(source: str, modules: Collection[str], package: str) -> str:
    """Let ``from course_lib.MODULE import …`` import from another package.

    Args:
        source: A cell, or a module.
        modules: Which modules of ``course_lib`` the other package has.
        package: Its name.

    Raises:
        ValueError: If one of the modules is imported in another way.
    """
    ours = {f"course_lib.{module}" for module in modules}

    def redirected(lines: list[str]) -> Iterator[Edit]:
        """Yield every line of import with the package's name replaced."""
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module in ours:
                changed = lines[node.lineno - 1].replace("course_lib", package, 1)
                yield node.lineno - 1, node.lineno, [changed]
            elif isinstance(node, ast.Import | ast.ImportFrom) and ours & _imported(node):
                raise ValueError(f"write `from course_lib.… import`, not `{ast.unparse(node)}`")

    return _edited(source, redirected)


def solution(source: str, name: str) -> str:
    """Return what a stub lacks: the body of a function, or a class without its docstrings."""
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
    """Apply edits from the last to the first, so that line numbers stay true."""
    lines = source.split("\n")
    for first, last, new in sorted(edits(list(lines)), reverse=True):
        lines[first:last] = new
    return "\n".join(lines)


def _outer(node: Definition) -> Iterator[ast.FunctionDef]:
    """Yield a function, or the methods of a class; what stands inside a function is its body."""
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
    """Describe the edit that leaves the signature and the docstring of a function."""
    return *_body(function, lines), [" " * (function.col_offset + 4) + STUB]


def _body(function: ast.FunctionDef, lines: list[str]) -> tuple[int | None, int | None]:
    """Find the lines of a body without its docstring, with the comments around and in it."""
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
    """Return the statement that is the docstring."""
    return node.body[0] if ast.get_docstring(node, clean=False) is not None else None


def _first_line(node: ast.stmt) -> int:
    """Number the line, from 0, on which a statement begins, its decorators included."""
    return min(n.lineno for n in (node, *getattr(node, "decorator_list", []))) - 1


def _lines_of(node: ast.stmt) -> range:
    """Number the lines of a statement from 0, its decorators included."""
    return range(_first_line(node), node.end_lineno)


def _unanswered(node: ast.Assign, lines: list[str]) -> Edit:
    """Describe the edit that puts ``...`` in the place of a value."""
    after = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()  # ast counts bytes
    node.value = ast.Constant(...)
    return node.lineno - 1, node.end_lineno, [ast.unparse(node) + after]


def _targets(node: ast.stmt) -> list[ast.Name]:
    """List the names that an assignment gives a value to."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target for target in targets if isinstance(target, ast.Name)]


def _checked(node: ast.stmt) -> str | None:
    """Name the definition that a line checks, if it is ``check("NAME", NAME)``."""
    match node:
        case ast.Expr(ast.Call(ast.Name("check"), [ast.Constant(said), ast.Name(name)], [])):
            return name if said == name else None
    return None


def _imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    """List the modules, by full name, that an import may mean."""
    inside = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return {inside + alias.name for alias in node.names}
