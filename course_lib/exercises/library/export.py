"""Update the learner's library ``my_lib`` with the notebook cells that passed."""

import ast
import importlib.util
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from course_lib.exercises.checking.exercise import exercises, find_exercise
from course_lib.exercises.checking.report import (
    CORRECT,
    UNTOUCHED,
    WRONG,
    card,
    lowered,
    pills,
    rendered,
    signed,
)
from course_lib.exercises.library.attempts import LAST, PASSED, running_shell
from course_lib.exercises.library.fallbacks import files_of, from_course
from course_lib.exercises.library.package import (
    CHANGED,
    LIBRARY,
    SEAL,
    cells_in,
    changed_by_hand,
    find_library,
    module_text,
)
from course_lib.exercises.library.separate_process import BROKEN, examine_apart, state_of
from course_lib.exercises.library.stubs import exported, without
from course_lib.support.atomic_write import write_whole

LIMIT = 60  # seconds for the file in a separate process
ASKED = {"attempt", "check", "export_mine"}
UNTRIED = "no exercise has been tried since the kernel started; run your cells, then this one again"
NOTHING = "none of your answers has passed yet"
PASTED = (
    'your latest version has no attempt line; put `{0} = attempt("{0}", {0})` at the end of its '
    "cell, run the cell, then this one"
)
NAMELESS = "it passed, but its cell does not define `{}`; use that name in the cell"
CORE_ONLY = '{0} = core_only("{0}", {0})'  # the line below an answer that later cells do not run
KEPT = "yours passed and stays in the file; later chapters run it once it has {}"
UNKNOWN = "what its cell shows when you run it again"
ALONE = "it fails in the file, which lacks your notebook's other cells: {}"


@dataclass(frozen=True, repr=False)
class Export:
    """The result of an export: which of a chapter's definitions are now the learner's."""

    file: str = ""
    yours: dict[str, str] = field(default_factory=dict)  # a remark on each, or nothing
    course: dict[str, str] = field(default_factory=dict)  # the reason for each
    back: Collection[str] = ()  # those that the learner gave back to the course
    problem: str = ""  # why nothing was written

    @property
    def title(self) -> str:
        """Say how many definitions are the learner's, or why nothing was written."""
        if self.problem:
            return f"Nothing was written: {self.problem}."
        return f"{self.file}: {len(self.yours)} of {len(self._states)} are yours"

    @property
    def _states(self) -> list[tuple[str, str]]:
        """Return the state and name of each definition; only the learner's are correct."""
        theirs = [(UNTOUCHED, name) for name in [*self.course, *self.back]]
        return [*((CORRECT, name) for name in self.yours), *theirs]

    @property
    def _remarks(self) -> list[str]:
        """Return a line for each definition about which there is something to say."""
        again = [f"{name} is the course's again" for name in self.back]
        remarks = {**self.yours, **self.course}
        return again + [f"{name}: {lowered(why)}" for name, why in remarks.items() if why]

    def __repr__(self) -> str:
        """Show the title, the state of each definition and the remarks as plain text."""
        return "\n".join(
            line for line in (self.title, signed(self._states), *self._remarks) if line
        )

    def _repr_html_(self) -> str:
        """Show the same as a card."""
        state = WRONG if self.problem else UNTOUCHED if self.course or self.back else CORRECT
        return card(state, self.title, pills(self._states), *map(rendered, self._remarks))


def export_mine(*, without: str | Collection[str] = ()) -> Export:
    """Update the chapter's module in ``my_lib`` with cells that passed in this session.

    Answers from earlier sessions stay in the module. We first run the new file in a separate
    process, which does not have the names from the notebook's other cells.

    Args:
        without: One or more exercises for which you want the course's definition back.

    Raises:
        ValueError: If there is no exercise with that name.
    """
    shell = running_shell()
    names = shell.user_ns if shell else {}
    return export(Path.cwd() / LIBRARY, names, [without] if isinstance(without, str) else without)


def export(package: Path, notebook: Mapping[str, Any], back: Collection[str] = ()) -> Export:
    """Update the learner's package with the answers that passed, except for those in ``back``."""
    modules = {find_exercise(name).module: None for name in [*back] or list(LAST)[-1:]}
    if not modules:
        return Export(problem=UNTRIED)
    plans = {}
    try:
        find_library(package.parent)
        with FileLock(package.with_name(f".{LIBRARY}.lock")):  # another kernel may export, too
            for module in modules:
                plans[package / f"{module}.py"] = _planned(package, module, notebook, back)
            for path, (text, *_) in plans.items():
                write_whole(path, text)
    except (ValueError, OSError) as error:
        return Export(problem=str(error))
    shown = Export(", ".join(f"{LIBRARY}/{path.name}" for path in plans), {}, {}, back)
    for path, (_, mine, rest) in plans.items():
        _forget(path)
        shown.yours.update(mine)
        shown.course.update(rest)
    return shown


def _planned(
    package: Path, module: str, notebook: Mapping[str, Any], back: Collection[str]
) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return a module's new text, and remarks on the learner's definitions and the course's.

    Raises:
        ValueError: If the file was changed by hand, or does not run.
    """
    path = package / f"{module}.py"
    before = path.read_text("utf-8", errors="replace") if path.exists() else module_text(module)
    if changed_by_hand(before):
        raise ValueError(CHANGED.format(f"{LIBRARY}/{path.name}"))
    names = [name for name in exercises() if find_exercise(name).module == module]
    old = {name: cell for name, cell in cells_in(before).items() if name not in back}
    reasons = _not_to_be_taken(names, notebook, package)
    fresh = {n: _cell(n) for n in names if n in PASSED and n not in reasons and n not in back}
    fresh = {name: cell for name, cell in fresh.items() if SEAL not in cell}  # from my_lib itself
    chosen, flaws = _settled(package, module, {**old, **fresh}, old)
    failed = {n: LAST[n].report.hint for n in names if n in LAST and not LAST[n].report.passed}
    remarks = {name: reasons.get(name) or flaws.get(name) or failed.get(name, "") for name in names}
    kept = {n: _kept(n, chosen[n], fresh) for n in chosen if f"{n} = core_only(" in chosen[n]}
    yours = {n: _remark(n, chosen, fresh, remarks[n]) for n in names if n in chosen.keys() - kept}
    courses = [name for name in names if name not in yours and name not in back]
    rest = {name: remarks[name] or kept.get(name, NOTHING) for name in courses}
    return module_text(module, _ordered(chosen, names)), yours, rest


def _not_to_be_taken(
    names: Collection[str], notebook: Mapping[str, Any], package: Path
) -> dict[str, str]:
    """Find answers that passed but were later replaced in the notebook or have the wrong name."""
    reasons = {}
    for name in names:
        last = PASSED[name].result if name in PASSED else None
        now = notebook.get(name)
        files = [Path(file) for file in files_of(now)]
        is_current = now is last or from_course(now) or any(package in f.parents for f in files)
        if files and not is_current:
            reasons[name] = PASTED.format(name)
        elif last is not None and name not in exported(_cell(name)):
            reasons[name] = NAMELESS.format(name)
    return reasons


def _cell(name: str) -> str:
    """Return the cell that passed, without directives, magics and the lines that check it."""
    last = PASSED[name]
    source = re.sub(r"\A(?:[ \t]*(?:#\s*\|.*)?\n)+", "", without(last.cell, _asks)).rstrip()
    return f"{source}\n\n\n{CORE_ONLY.format(name)}" if last.lacks else source


def _asks(node: ast.stmt) -> bool:
    """Return whether a statement is a magic or calls a function in ``ASKED``, even as ``x = …``."""
    call = getattr(node, "value", None)
    called = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    return called.startswith("get_ipython().") or called.split(".")[-1] in ASKED


def _settled(
    package: Path, module: str, chosen: Mapping[str, str], old: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Choose the cells that pass together in one file, and say what is wrong with the others.

    A cell that does not pass is replaced with its old version, if there is one.

    Raises:
        ValueError: If the file does not run, and none of its cells is to blame.
    """
    chosen = dict(chosen)
    flaws: dict[str, str] = {}
    names = [name for name in exercises() if find_exercise(name).module == module]
    while chosen:
        text = module_text(module, _ordered(chosen, names))
        reports = examine_apart(package, {module: list(chosen)}, LIMIT, {module: text})
        failing = {name: report.hint for name, report in reports.items() if not report.passed}
        if not failing:
            break
        if all(state_of(report) == BROKEN for report in reports.values()):  # one cell is to blame
            line = re.search(rf"{module}\.py, line (\d+): ", " ".join(failing.values()))
            above = text.split("\n")[: int(line[1])] if line else []
            owner = list(cells_in("\n".join(above)))[-1:]
            if not owner:
                hint = next(iter(failing.values()))
                raise ValueError(f"{module}.py does not run in a separate process: {hint}")
            failing = {name: failing[name] for name in owner}
        for name, hint in failing.items():
            flaws.setdefault(name, ALONE.format(hint))
            cell = chosen.pop(name)
            if old.get(name, cell) != cell:
                chosen[name] = old[name]
    return chosen, flaws


def _ordered(chosen: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Put cells in chapter order, and leave out definitions that other cells provide."""

    def own(cell: str) -> str:
        """Leave out the definitions that other chosen cells provide."""
        others = {name for name in names if chosen.get(name) != cell}
        return without(cell, lambda node: not others.isdisjoint(exported(ast.unparse(node))))

    return {name: own(chosen[name]) for name in names if name in chosen}


def _remark(name: str, chosen: Mapping[str, str], fresh: Mapping[str, str], why: str) -> str:
    """Say which of the learner's answers was used, if it is not the latest."""
    if why:
        return f"an earlier version that passed; your latest version: {why}"
    return "" if fresh.get(name) == chosen[name] else "from an earlier session"


def _kept(name: str, cell: str, fresh: Mapping[str, str]) -> str:
    """Say what an answer that passed lacks before later chapters run it."""
    return KEPT.format(PASSED[name].lacks if fresh.get(name) == cell else UNKNOWN)


def _forget(path: Path) -> None:
    """Make the next import of the learner's package read its files again."""
    package = path.parent.name
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        del sys.modules[name]
    compiled = Path(importlib.util.cache_from_source(str(path)))
    compiled.unlink(missing_ok=True)  # it can look up to date, because it stores only whole seconds
    importlib.invalidate_caches()
