"""Your own library: the cells that passed in the notebook go into ``my_lib``."""

import ast
import importlib.util
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.atomic_write import write_whole
from course_lib.exercises.attempts import LAST, PASSED
from course_lib.exercises.check_report import CORRECT
from course_lib.exercises.exercise_bank import exercise, exercises
from course_lib.exercises.fallbacks import files_of, from_course
from course_lib.exercises.learner_package import (
    CHANGED,
    LIBRARY,
    SEAL,
    cells_in,
    changed_by_hand,
    check_edition,
    module_text,
)
from course_lib.exercises.sandbox import BROKEN, examine_apart
from course_lib.exercises.stubs import exported, without

LIMIT = 60  # seconds for the file in a process of its own
ASKED = {"attempt", "check", "export_mine"}
UNTRIED = "no exercise was tried since the kernel started; run your cells, then this one again"
PASTED = (
    'the last one has no attempt line; put `{0} = attempt("{0}", {0})` at the end of its cell, '
    "run the cell, then this one"
)
NAMELESS = "it passed, but its cell does not define `{}`: give it that name there"
CORE_ONLY = "\n\n\n{0} = core_only({1})  # what it missed runs the course's own"
SERVED = "\n\n\n{0} = core_only({1})  # with all attributes of the course's own"
ALONE = "in the file, where your notebook's other cells are missing: {}"


@dataclass(frozen=True, repr=False)
class Export:
    """Show which definitions of a chapter are the learner's now.

    Args:
        file: Which file was written; empty if none was.
        yours: For each definition of the learner's a remark, or nothing.
        course: For each that still comes from the course, why.
        problem: Why nothing was written, if so.
    """

    file: str = ""
    yours: Mapping[str, str] = field(default_factory=dict)
    course: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    def __repr__(self) -> str:
        """Show the result, a line for each definition."""
        if self.problem:
            return f"Nothing was written: {self.problem}."
        count = len(self.yours) + len(self.course)
        lines = [f"{self.file}: {len(self.yours)} of {count} are yours"]
        lines += [f"yours: {name}{why and f' ({why})'}" for name, why in self.yours.items()]
        lines += [f"the course's: {name} ({why})" for name, why in self.course.items()]
        return "\n".join(lines)


def export_mine(*, without: Collection[str] = ()) -> Export:
    """Put the cells that passed since the kernel started into the chapter's module of ``my_lib``.

    What the module holds from earlier sessions stays. The new file is tried in a process of its
    own first, where the notebook's names are missing.

    Args:
        without: Exercises that go back to the course's own, such as ``["causal_mask"]``.

    Returns:
        What shows which definitions are yours now, and which still come from the course.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    names = shell.user_ns if shell else {}
    return export(Path.cwd() / LIBRARY, names, [without] if isinstance(without, str) else without)


def export(package: Path, notebook: Mapping[str, Any], back: Collection[str] = ()) -> Export:
    """Put what passed into the learner's package.

    Args:
        package: The folder ``my_lib``.
        notebook: The names that the notebook has, and what they mean there.
        back: Exercises that go back to the course's own.
    """
    if not LAST:
        return Export(problem=UNTRIED)
    module = exercise(list(LAST)[-1]).module
    path = package / f"{module}.py"
    if not package.is_dir():
        where = f"there is no folder {package.name} in {package.parent}, beside the notebook"
        return Export(problem=f"{where}; `course workbook DIR` makes one in DIR")
    try:
        check_edition(package)
    except ValueError as error:
        return Export(problem=str(error))
    before = path.read_text("utf-8", errors="replace") if path.exists() else module_text(module)
    if changed_by_hand(before):
        return Export(problem=CHANGED.format(f"{LIBRARY}/{path.name}"))
    names = [name for name in exercises() if exercise(name).module == module]
    old = {name: cell for name, cell in cells_in(before).items() if name not in back}
    reasons = _not_to_be_taken(names, notebook, package)
    fresh = {n: _cell(n) for n in names if n in PASSED and n not in reasons and n not in back}
    fresh = {name: cell for name, cell in fresh.items() if SEAL not in cell}  # from my_lib itself
    try:
        chosen, flaws = _settled(package, module, {**old, **fresh}, old)
    except ValueError as error:
        return Export(problem=str(error))
    write_whole(path, module_text(module, _ordered(chosen, names)))
    _forget(path)
    said = {name: reasons.get(name) or flaws.get(name) or _last_words(name) for name in names}
    yours = {n: _remark(n, chosen, fresh, said[n]) for n in names if n in chosen}
    rest = {n: said[n] or "nothing of yours passed yet" for n in names if n not in chosen}
    return Export(f"{LIBRARY}/{path.name}", yours, rest)


def _not_to_be_taken(
    names: Collection[str], notebook: Mapping[str, Any], package: Path
) -> dict[str, str]:
    """Find what passed once, and is not in the notebook now, or has another name in its cell."""
    found = {}
    for name in names:
        last = PASSED[name].result if name in PASSED else None
        now = notebook.get(name)
        files = [Path(file) for file in files_of(now)]
        known = now is last or from_course(now) or any(package in f.parents for f in files)
        if files and not known:
            found[name] = PASTED.format(name)
        elif last is not None and name not in exported(_cell(name)):
            found[name] = NAMELESS.format(name)
    return found


def _cell(name: str) -> str:
    """Return the cell that passed, without its directives and the lines that ask for a check."""
    kept = without(PASSED[name].cell, _asks)
    kept = re.sub(r"\A(?:[ \t]*(?:#\s*\|.*)?\n)+", "", kept).rstrip()
    report = PASSED[name].report
    given = ", ".join([f'"{name}"', name, *(f'"{stage}"' for stage in report.missed)])
    if PASSED[name].result is PASSED[name].candidate:
        return kept
    return kept + (SERVED if report.complete else CORE_ONLY).format(name, given)


def _asks(node: ast.stmt) -> bool:
    """Say whether a statement is ``attempt(…)`` or the like, with or without ``NAME =``."""
    call = getattr(node, "value", None)
    return isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in ASKED


def _settled(
    package: Path, module: str, chosen: Mapping[str, str], old: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Take as much as passes together in one file; what does not gives way to what was there.

    Returns:
        The cell of each name that is the learner's; and what is wrong with those given up.

    Raises:
        ValueError: If the file does not run, and not because of a cell in it.
    """
    chosen = dict(chosen)
    flaws: dict[str, str] = {}
    names = [name for name in exercises() if exercise(name).module == module]
    while chosen:
        text = module_text(module, _ordered(chosen, names))
        marks = examine_apart(package, {module: list(chosen)}, LIMIT, {module: text})
        failing = {m.exercise: m.hint for m in marks.values() if m.state != CORRECT}
        line = re.search(rf"{module}\.py, line (\d+): ", " ".join(failing.values()))
        broken = [m for m in marks.values() if m.state == BROKEN]
        if broken == list(marks.values()) and not line:
            raise ValueError(f"{module}.py does not run in a process of its own: {broken[0].hint}")
        if line and len(broken) == len(chosen):  # the file breaks off at one cell
            above = text.split("\n")[: int(line[1])]
            owners = cells_in("\n".join(above))
            failing = {name: failing[name] for name in list(owners)[-1:] if name in failing}
        if not failing:
            break
        for name, hint in failing.items():
            flaws.setdefault(name, ALONE.format(hint))
            cell = chosen.pop(name)
            if old.get(name, cell) != cell:
                chosen[name] = old[name]
    return chosen, flaws


def _ordered(chosen: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Put cells in the order of the chapter, each without the definitions taken from others."""

    def own(cell: str) -> str:
        """Leave out what another cell defines otherwise."""
        return without(
            cell,
            lambda node: any(
                other in names and chosen.get(other) != cell
                for other in exported(ast.unparse(node))
            ),
        )

    return {name: own(chosen[name]) for name in names if name in chosen}


def _last_words(name: str) -> str:
    """Return what was said of the last attempt, if it did not pass."""
    report = LAST[name].report if name in LAST else None
    return report.hint if report and not report.passed else ""


def _remark(name: str, chosen: Mapping[str, str], fresh: Mapping[str, str], why: str) -> str:
    """Say which one of the learner's was taken, where it is not the last."""
    if why:
        return f"an earlier one that passed; your last: {why}"
    core = (
        "its core; what it missed runs the course's own" if "what it missed" in chosen[name] else ""
    )
    return core if fresh.get(name) == chosen[name] else "from an earlier session"


def _forget(path: Path) -> None:
    """Let the next import of anything in the learner's package read the files."""
    package = path.parent.name
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        del sys.modules[name]
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)  # to the second only
    importlib.invalidate_caches()
