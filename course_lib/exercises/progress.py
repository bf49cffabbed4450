"""Keep a learner's progress in a file in their package, and show it as a table."""

import html
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from course_lib.atomic_write import set_aside, write_whole
from course_lib.exercises.catalogue import tasks
from course_lib.exercises.check_report import CORRECT, UNTOUCHED, WRONG, Report
from course_lib.exercises.exercise_bank import chapters, exercise, exercises
from course_lib.exercises.learner_package import LIBRARY, find_library

FILE = "progress.json"
STATES = (UNTOUCHED, WRONG, CORRECT)


@dataclass(frozen=True)
class Item:
    """An exercise or a task, its kind (such as ``"build"``), and a first-time learner's minutes."""

    name: str
    chapter: int
    kind: str
    minutes: int


@dataclass(frozen=True, repr=False)
class Progress:
    """Show the state of each item, by chapter; a notebook shows a table."""

    states: dict[Item, str]

    @property
    def title(self) -> str:
        """Return the number of items that are done, and the time that the others take."""
        left = [item.minutes for item, state in self.states.items() if state != CORRECT]
        hours, minutes = divmod(sum(left), 60)
        done = len(self.states) - len(left)
        return f"{done} of {len(self.states)} done; about {hours} h {minutes} min left"

    def __repr__(self) -> str:
        """Show the totals by chapter as plain text."""
        rows = list(self._totals())
        wide = max(len(chapter) for _, chapter, _ in rows)
        lines = [f"{sign} {chapter:{wide}}  {left}" for sign, chapter, left in rows]
        return "\n".join([self.title, "", *lines])

    def details(self) -> str:
        """List every item as plain text."""
        lines = [self.title]
        wide = max(len(item.name) for item in self.states)
        for chapter, pairs in self._by_chapter():
            lines += ["", chapter]
            for item, state in pairs:
                begin = f"  {_sign(state)} {state:13}  {item.name:{wide}}"
                lines.append(f"{begin}  {item.kind:14} {item.minutes:3} min")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Show the totals by chapter in JupyterLab."""
        rows = []
        for row in self._totals():
            cells = (f'<td style="text-align: left">{html.escape(cell)}</td>' for cell in row)
            rows.append(f"<tr>{''.join(cells)}</tr>")
        caption = f'<caption style="text-align: left"><strong>{self.title}</strong></caption>'
        return f"<table>{caption}{''.join(rows)}</table>"

    def _totals(self) -> Iterator[tuple[str, str, str]]:
        """Yield each chapter's sign, its heading, and the work that is done and left."""
        for chapter, pairs in self._by_chapter():
            done = sum(state == CORRECT for _, state in pairs)
            left = sum(item.minutes for item, state in pairs if state != CORRECT)
            touched = any(state != UNTOUCHED for _, state in pairs)
            state = CORRECT if done == len(pairs) else WRONG if touched else UNTOUCHED
            yield _sign(state), chapter, f"{done} of {len(pairs)} done, {left} min left"

    def _by_chapter(self) -> Iterator[tuple[str, list[tuple[Item, str]]]]:
        """Yield every chapter's heading with its items."""
        for chapter, pairs in groupby(self.states.items(), lambda pair: pair[0].chapter):
            modules = [name for name, number in chapters().items() if number == chapter]
            yield " · ".join([f"Chapter {chapter:02}", *modules]), list(pairs)


def note(report: Report) -> Report:
    """Keep the state of an exercise if the current folder has a ``my_lib``; return the report.

    A state that was correct once is kept; otherwise the latest one is. Nothing is sent anywhere.
    """
    package = Path(LIBRARY)
    if package.is_dir() and report.state != UNTOUCHED:
        try:
            kept = _read(package)
            if report.passed or kept.get(report.name, {}).get("state") != CORRECT:
                kept[report.name] = {"state": report.state, "mistake": report.mistake}
                write_whole(package / FILE, json.dumps(kept, indent=1, sort_keys=True) + "\n")
        except OSError as error:
            print(f"your progress could not be kept: {error}", file=sys.stderr)
    return report


def progress(folder: Path | str | None = None) -> Progress:
    """Return the state of every exercise and task.

    Args:
        folder: A workbook's folder, or the ``my_lib`` in it; the current folder unless given.

    Raises:
        ValueError: If a folder is given and has no ``my_lib``.
    """
    kept = _read(Path(LIBRARY) if folder is None else find_library(Path(folder)))
    return Progress({item: kept.get(item.name, {}).get("state", UNTOUCHED) for item in items()})


def items() -> list[Item]:
    """List every exercise and task, in the order of the chapters."""
    built = [exercise(name) for name in exercises()]
    found = [Item(task.name, chapters()[task.module], "build", task.minutes) for task in built]
    found += [Item(task.name, task.chapter, task.kind, task.minutes) for task in tasks()]
    return sorted(found, key=lambda item: item.chapter)


def _read(package: Path) -> dict[str, dict[str, Any]]:
    """Read the states; rename a file that cannot be read, and say so."""
    path = package / FILE
    if not path.exists():
        return {}
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if all(entry["state"] in STATES for entry in kept.values()):
            return kept
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    aside = set_aside(path)
    print(f"{path} could not be read; we renamed it to {aside.name}", file=sys.stderr)
    return {}


def _sign(state: str) -> str:
    """Return the sign that a report of a state begins with."""
    return Report("", state == CORRECT, attempted=state == WRONG).title[0]
