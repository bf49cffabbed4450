"""Split a chapter into sections and stubs."""

import ast
import re
from collections.abc import Iterator

import nbformat

from course_lib.exercises import exercises
from course_lib.exercises.library.stubs import defined
from course_lib.exercises.workbook.notebook_builder import is_marked

Cells = list[nbformat.NotebookNode]


def sections(cells: Cells) -> list[tuple[str, Cells]]:
    """Split a chapter at its ``##`` headings; the opening has an empty heading."""
    found = [("", [])]
    for cell in cells:
        heading = re.search(r"^## (.+)", cell.source, re.M)
        if cell.cell_type == "markdown" and heading:
            found.append((heading[1], []))
        found[-1][1].append(cell)
    return found


def stubs_in(cell: nbformat.NotebookNode) -> list[str]:
    """List the definitions of a cell that become stubs in the learner's edition."""
    if cell.cell_type != "code" or not is_marked(cell.source, "export"):
        return []
    return [name for name in defined(cell.source) if name in exercises()]


def printed_bodies(cells: Cells) -> Iterator[str]:
    """List the stubs for which another cell above shows three quarters of the steps."""
    for place, cell in enumerate(cells):
        for name in stubs_in(cell):
            steps = steps_of(body(defined(cell.source)[name]))
            above = (
                ast.parse(c.source)
                for c in cells[:place]
                if c.cell_type == "code" and not stubs_in(c)
            )
            if steps and any(len(steps & steps_of(tree)) >= 0.75 * len(steps) for tree in above):
                yield name


def body(definition: ast.FunctionDef | ast.ClassDef) -> ast.Module:
    """Return the statements of a function, or of the method that runs when a class is called."""
    functions = [node for node in ast.walk(definition) if isinstance(node, ast.FunctionDef)]
    chosen = [f for f in functions if f.name != "__init__"] or functions
    return ast.Module([statement for f in chosen for statement in f.body], [])


def steps_of(tree: ast.AST) -> set[str]:
    """List the operators and methods in code, whatever the names of its variables."""
    same = {"T": "transpose", "mT": "transpose", "view": "unflatten", "reshape": "flatten"}
    steps = {type(node.op).__name__ for node in ast.walk(tree) if isinstance(node, ast.BinOp)}
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    steps |= {same.get(n.attr, n.attr) for n in named if n in called or n.attr in same}
    return steps - {"__init__", "size"}
