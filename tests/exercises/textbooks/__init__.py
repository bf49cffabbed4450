"""Correct answers in the styles of five textbooks, and the cells that their readers would write."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from workbook_solver import MODULES

from course_lib.exercises import exercises
from course_lib.exercises.checking.exercise import find_exercise, right_ways
from course_lib.exercises.checking.mistake import PRELUDE
from course_lib.exercises.library import stubs
from course_lib.exercises.library.package import LIBRARY
from textbooks import annotated, d2l, nanogpt, pytorch_tutorial, uva

BOOKS: Mapping[str, ModuleType] = {
    "annotated": annotated,
    "uva": uva,
    "d2l": d2l,
    "nanogpt": nanogpt,
    "pytorch_tutorial": pytorch_tutorial,
}


def cells_of(first: str) -> dict[str, str]:
    """Return the cell that a reader of a book would write for each exercise.

    If the book does not have an answer, it comes from the next book on the shelf or, if no book
    has one, from the bank.
    """
    place = list(BOOKS).index(first)
    shelf = [*BOOKS.values()][place:] + [*BOOKS.values()][:place]
    ways = {name: way for name in exercises() for way in right_ways(name)[:1]}
    edited = {name: f"{PRELUDE}\n\n{way.source}" for name, way in ways.items()}
    answers: dict[str, Any] = {}
    for book in reversed(shelf):
        answers |= book.ANSWERS
    return edited | {name: _cell(name, answer) for name, answer in answers.items()}


def _cell(name: str, answer: Any) -> str:
    """Write an answer under the exercise's name, below its imports and helpers."""
    text = inspect.getsource(sys.modules[answer.__module__])
    defined = stubs.defined(text)
    needed = {answer.__name__, *_helpers(defined, answer.__name__)}
    parts = [ast.get_source_segment(text, node) for key, node in defined.items() if key in needed]
    used = set(re.findall(r"\w+", "\n".join(parts)))
    imports = re.findall(r"^(?:import|from (?!course_lib|textbooks)\S+ import) .*", text, re.M)
    imports += [
        f"from {source} import {part}"
        for source, given in re.findall(r"^from (course_lib\.\w+) import (.*)", text, re.M)
        for part in sorted(used.intersection(given.split(", ")))
        if source != f"course_lib.{find_exercise(name).module}"  # these are in the notebook
    ]
    imports = stubs.from_package("\n".join(imports), MODULES, LIBRARY)
    return re.sub(rf"\b{answer.__name__}\b", name, "\n\n\n".join([imports, *parts]))


def _helpers(defined: Mapping[str, stubs.Definition], name: str) -> Iterator[str]:
    """Return the definitions in a module that a definition uses, directly or indirectly."""
    words = [node for node in ast.walk(defined[name]) if isinstance(node, ast.Name)]
    own = {word.id for word in words if isinstance(word.ctx, ast.Store)} | {name}
    for word in words:
        if word.id in defined and word.id not in own:
            yield word.id
            yield from _helpers(defined, word.id)
