"""Measure source code as the norms do: without docstrings, directives and blank lines."""

import ast


def definitions(tree: ast.AST) -> list[ast.FunctionDef | ast.ClassDef]:
    """List every function and class in a tree."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]


def code_lines(source: str, first: int = 1, last: int | None = None) -> int:
    """Count the lines of code between two line numbers."""
    tree = ast.parse(source)
    said = set()
    for node in (tree, *definitions(tree)):
        if ast.get_docstring(node) is not None:
            said |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(source.splitlines()[:last], start=1)
    counted = (n for n, line in lines if line.strip() and not line.startswith(("#|", "# %%")))
    return sum(n >= first and n not in said for n in counted)
