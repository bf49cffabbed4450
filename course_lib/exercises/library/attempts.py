"""Check a learner's answer in a chapter, and choose the definition that the chapter uses next."""

import linecache
import sys
from dataclasses import dataclass, replace
from typing import Any

from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.exercise import exercises, find_exercise
from course_lib.exercises.checking.report import Report
from course_lib.exercises.library.fallbacks import files_of
from course_lib.exercises.library.later_cells import lacking
from course_lib.exercises.library.progress import note
from course_lib.exercises.library.stubs import defined


@dataclass(frozen=True)
class Attempt:
    """An attempt: its report, the definition that the chapter uses, and the cell's source.

    ``lacks`` says what it lacks before later cells run it; empty if they do, or if it failed.
    """

    report: Report
    candidate: object
    result: Any
    cell: str
    lacks: str = ""


LAST: dict[str, Attempt] = {}  # the last attempt at each exercise in this process
PASSED: dict[str, Attempt] = {}  # the last attempt that passed
LATER = "Later cells run the course's {}. They run yours once it has {}."
YOURS = "The cells below run your version."
INSTEAD = "Until your version passes, the chapter uses the course's {}."


def attempt(name: str, candidate: object) -> object:
    """Show the report on a candidate, and return the definition that the chapter uses next.

    We return the candidate if it passed and has the course's signature and names. Otherwise, we
    return the course's definition, and the report says so.
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


def running_shell() -> Any:
    """Return the shell of the notebook, or ``None`` outside of a notebook."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def attempt_for(result: Any) -> None:
    """Attempt each exercise that a cell defines, if its last line, which does this, is gone.

    A notebook calls this after each cell, with the result of IPython.
    """
    shell = running_shell()
    cell = shell.transform_cell(result.info.raw_cell) if result.success else ""
    for name in [name for name in defined(cell) if name in exercises()]:
        now, last = shell.user_ns.get(name), LAST.get(name)
        if last is None or all(now is not known for known in (last.candidate, last.result)):
            shell.user_ns[name] = attempt(name, now)


def _cell_of(candidate: object) -> str:
    """Return the cell that defines a candidate, without the magic in its first line, if any."""
    text = "".join(line for file in files_of(candidate)[:1] for line in linecache.getlines(file))
    shell = running_shell()
    if text or shell is None:
        return text
    first, _, cell = shell.history_manager.input_hist_raw[-1].lstrip().partition("\n")
    return shell.transform_cell(cell) if first.startswith("%%") else ""


def _noted(name: str, candidate: object) -> Report:
    """Check a candidate, and store its cell and report."""
    cell = _cell_of(candidate)
    report = examine(name, candidate)
    LAST.pop(name, None)
    result: Any = find_exercise(name).definition
    lacks = lacking(report, candidate) if report.passed else ""
    if lacks:
        hint = f"{report.hint} {LATER.format(name, lacks)}".lstrip()
        report = replace(report, hint=hint)
    elif report.passed:
        result, report = candidate, replace(report, after=YOURS)
    LAST[name] = Attempt(report, candidate, result, cell, lacks)
    if report.passed:
        PASSED[name] = LAST[name]
    return note(report, "is done" if lacks else "is yours")


if shell := running_shell():
    shell.events.register("post_run_cell", attempt_for)
