"""Fill a workbook in, as a learner would: any source for an exercise, the right one too."""

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from course_lib.learn import stubs
from course_lib.learn.edition import LIBRARY, Chapter, is_marked, source_of

ATTEMPT = re.compile(r'^(\w+) = attempt\("\1", \1\)$', re.M)


def tasks(cell: Mapping[str, Any]) -> list[str]:
    """Name the exercises of a workbook's cell."""
    return ATTEMPT.findall(source_of(cell)) if cell["cell_type"] == "code" else []


def reference_answers(chapter: Chapter) -> dict[str, str]:
    """Return the source of every definition that a worked chapter exports."""
    marked = [source for source in chapter.sources if is_marked(source, "export")]
    return {name: definition(source, name) for source in marked for name in stubs.defined(source)}


def definition(source: str, name: str) -> str:
    """Cut one definition out of a cell, its decorators included."""
    node = stubs.defined(source)[name]
    first = min(n.lineno for n in (node, *node.decorator_list))
    return "\n".join(source.split("\n")[first - 1 : node.end_lineno])


def put(notebook: Mapping[str, Any], answers: Mapping[str, str]) -> dict[str, Any]:
    """Write answers in the place of the stubs; exercises without one stay as they are.

    Args:
        notebook: A chapter of a workbook; it is not changed.
        answers: Sources of definitions, by the name of the exercise.
    """
    filled = deepcopy(notebook)
    for cell in filled["cells"]:
        for name in set(tasks(cell)) & set(answers):
            source = source_of(cell)
            cell["source"] = source.replace(definition(source, name), answers[name])
    return filled


def put_worked_cells(notebook: Mapping[str, Any], chapter: Chapter, modules) -> dict[str, Any]:
    """Answer the other exercises (``#| exercise``) as the worked chapter does."""
    worked = {cell["id"]: source_of(cell) for cell in chapter.cells}
    filled = deepcopy(notebook)
    for cell in filled["cells"]:
        if is_marked(source_of(cell), "exercise"):
            cell["source"] = stubs.from_package(worked[cell["id"]], modules, LIBRARY)
    return filled
