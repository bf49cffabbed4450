"""Code metrics of the style guide, which exclude docstrings, directives and blank lines."""

import ast
from functools import cache


def definitions(tree: ast.AST) -> list[ast.FunctionDef | ast.ClassDef]:
    """List every function and class in a tree."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]


def code_lines(source: str, first: int = 1, last: int | None = None) -> int:
    """Count the lines of code between two line numbers."""
    last = last or source.count("\n") + 1
    return sum(first <= number <= last for number in _numbers(source))


@cache
def _numbers(source: str) -> list[int]:
    """Return the numbers of the lines that contain code."""
    tree = ast.parse(source)
    said = set()
    for node in (tree, *definitions(tree)):
        if ast.get_docstring(node) is not None:
            said |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(source.splitlines(), start=1)
    code = (n for n, line in lines if line.strip() and not line.startswith("#|"))
    return [n for n in code if n not in said]


def core_lines(source: str) -> int:
    """Count the lines of code without comments, imports and calls of input checks."""
    left_out = set()
    for node in ast.walk(ast.parse(source)):
        checks = isinstance(node, ast.Expr) and ast.unparse(node).startswith("check_")
        if checks or isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= set(range(node.lineno, node.end_lineno + 1))
    lines = source.splitlines()
    comments = {n for n, line in enumerate(lines, start=1) if line.lstrip().startswith("#")}
    return len(set(_numbers(source)) - left_out - comments)
