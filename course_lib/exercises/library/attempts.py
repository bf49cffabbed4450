"""Check a learner's answer in a chapter, and choose the definition that the chapter uses next."""

import linecache
from dataclasses import dataclass, replace
from typing import Any

from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.exercise import find_exercise
from course_lib.exercises.checking.report import Report
from course_lib.exercises.library.fallbacks import core_only, files_of
from course_lib.exercises.library.progress import note
from course_lib.exercises.library.served_answers import lacks_attributes


@dataclass(frozen=True)
class Attempt:
    """An attempt: its report, the definition that the chapter uses, and the cell's source."""

    report: Report
    candidate: object
    result: Any
    cell: str


LAST: dict[str, Attempt] = {}  # the last attempt at each exercise in this process
PASSED: dict[str, Attempt] = {}  # the last attempt that passed
INSTEAD = "Until your version passes, the chapter uses the course's {}."


def attempt(name: str, candidate: object) -> object:
    """Show the report on a candidate, and return the definition that the chapter uses next.

    If the candidate passed, we return it (in an adapter if it lacks extra features). Otherwise, we
    return the course's definition.
    """
    from IPython.display import display  # slow to import, and only notebooks need it

    try:
        result = find_exercise(name).definition
    except ValueError as error:  # somebody changed the line
        display(Report(name, False, hint=f"{error}", attempted=False))
        return candidate
    if candidate is result:
        hint = f"This is the course's definition. Define `{name}` above this line."
        report = Report(name, False, hint=hint, attempted=False)
    else:
        report = _noted(name, candidate)
        result = LAST[name].result
    if not report.passed:
        detail = f"{report.detail}\n{INSTEAD.format(name)}".lstrip()
        report = replace(report, detail=detail)
    display(report)
    return result


def _noted(name: str, candidate: object) -> Report:
    """Check a candidate, and store its cell and report."""
    cell = "".join(line for file in files_of(candidate)[:1] for line in linecache.getlines(file))
    report = examine(name, candidate)
    LAST.pop(name, None)
    result = find_exercise(name).definition
    if report.passed and callable(candidate):
        whole = report.complete and not lacks_attributes(candidate, result)
        result = candidate if whole else core_only(name, candidate, *report.missed)
    LAST[name] = Attempt(report, candidate, result, cell)
    if report.passed:
        PASSED[name] = LAST[name]
    return note(report)
