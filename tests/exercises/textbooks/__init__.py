"""Right answers in the styles of five textbooks, and the cells that their readers would write."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from course_lib.exercises import stubs
from textbooks import annotated, d2l, nanogpt, pytorch_tutorial, uva

BOOKS: Mapping[str, ModuleType] = {
    "annotated": annotated,
    "uva": uva,
    "d2l": d2l,
    "nanogpt": nanogpt,
    "pytorch_tutorial": pytorch_tutorial,
}


def cells_of(book: str) -> dict[str, str]:
    """Return what a reader of the book writes into the cell of each exercise."""
    module = BOOKS[book]
    return {name: _cell(module, name, answer) for name, answer in module.ANSWERS.items()}


def _cell(module: ModuleType, name: str, answer: Any) -> str:
    """Write an answer under the name of the exercise, below its imports and helpers."""
    text = inspect.getsource(module)
    defined = stubs.defined(text)
    needed = {answer.__name__, *_helpers(defined, answer.__name__)}
    parts = [ast.get_source_segment(text, node) for key, node in defined.items() if key in needed]
    imports = re.findall(r"^(?:import|from torch).*", text, re.M)
    cell = "\n\n\n".join(["\n".join(imports), *parts])
    return re.sub(rf"\b{answer.__name__}\b", name, cell)


def _helpers(defined: Mapping[str, stubs.Definition], name: str) -> Iterator[str]:
    """Name the definitions of a module that one of them uses, and those that these use."""
    for node in ast.walk(defined[name]):
        if isinstance(node, ast.Name) and node.id in defined and node.id != name:
            yield node.id
            yield from _helpers(defined, node.id)
