"""How far a learner is: kept in one local file beside their package, and shown as a table."""

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
from course_lib.exercises.check_report import CORRECT, UNTOUCHED, WRONG, Guess, Report
from course_lib.exercises.exercise_bank import chapters, exercise, exercises
from course_lib.exercises.learner_package import LIBRARY, check_edition

FILE = "progress.json"
GUESSES = "guesses.json"  # before a cell was run; they count for nothing
STATES = (UNTOUCHED, WRONG, CORRECT)


@dataclass(frozen=True)
class Item:
    """Name something to do.

    Args:
        name: The exercise or task.
        chapter: Its number.
        kind: What is to be done there, such as ``"build"``.
        minutes: How long a first-time learner needs.
    """

    name: str
    chapter: int
    kind: str
    minutes: int


@dataclass(frozen=True, repr=False)
class Progress:
    """Show what is done and left, by chapter; in a notebook it shows itself as a table.

    Args:
        states: The state of each item, in the order of the chapters.
    """

    states: dict[Item, str]

    @property
    def title(self) -> str:
        """Return how much is done, and how long the rest takes, in one line."""
        left = [item.minutes for item, state in self.states.items() if state != CORRECT]
        hours, minutes = divmod(sum(left), 60)
        return (
            f"{len(self.states) - len(left)} of {len(self.states)} done; "
            f"about {hours} h {minutes} min left"
        )

    def __repr__(self) -> str:
        """Show the totals by chapter as plain text."""
        rows = (f"{_sign(s)} {chapter:{self._wide}}  {rest}" for chapter, s, rest in self._totals())
        return "\n".join([self.title, "", *rows])

    def details(self) -> str:
        """List every exercise as plain text."""
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
        for chapter, state, rest in self._totals():
            cells = (_sign(state), html.escape(chapter), rest)
            tds = "".join(f'<td style="text-align: left">{cell}</td>' for cell in cells)
            rows.append(f"<tr>{tds}</tr>")
        caption = f'<caption style="text-align: left"><strong>{self.title}</strong></caption>'
        return f"<table>{caption}{''.join(rows)}</table>"

    @property
    def _wide(self) -> int:
        """Return the length of the longest heading."""
        return max(len(chapter) for chapter, _ in self._by_chapter())

    def _totals(self) -> Iterator[tuple[str, str, str]]:
        """Yield each chapter's heading, its state, and what is done and left."""
        for chapter, pairs in self._by_chapter():
            done = sum(state == CORRECT for _, state in pairs)
            left = sum(item.minutes for item, state in pairs if state != CORRECT)
            touched = any(state != UNTOUCHED for _, state in pairs)
            state = CORRECT if done == len(pairs) else WRONG if touched else UNTOUCHED
            yield chapter, state, f"{done} of {len(pairs)} done, {left} min left"

    def _by_chapter(self) -> Iterator[tuple[str, list[tuple[Item, str]]]]:
        """Yield every chapter's heading with its items."""
        for chapter, pairs in groupby(self.states.items(), lambda pair: pair[0].chapter):
            modules = [name for name, number in chapters().items() if number == chapter]
            yield " · ".join([f"Chapter {chapter:02}", *modules]), list(pairs)


def note(report: Report) -> Report:
    """Keep the state of an exercise where a learner's package lies in the current folder.

    What was correct once stays so; else the latest counts. Elsewhere nothing is kept, and
    nothing leaves the computer.

    Args:
        report: What a check said.

    Returns:
        The same report.
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


def keep_guess(guess: Guess) -> Guess:
    """Keep a guess that is not graded where a learner's package lies; return it."""
    path = Path(LIBRARY) / GUESSES
    if path.parent.is_dir() and guess.answer is not ...:
        try:
            kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            kept[guess.name] = str(guess.answer)
            write_whole(path, json.dumps(kept, indent=1, sort_keys=True) + "\n")
        except (OSError, ValueError, TypeError) as error:
            print(f"your guess could not be kept: {error}", file=sys.stderr)
    return guess


def progress(folder: Path | str | None = None) -> Progress:
    """Return the state of everything that there is to do.

    Args:
        folder: A workbook's folder, or the ``my_lib`` in it. Unless given, it is the current
            folder, where no ``my_lib`` means that nothing was attempted.

    Raises:
        ValueError: If a folder is given and there is no ``my_lib``, or it is of the first edition.
    """
    place = Path(folder or ".")
    package = place if place.resolve().name == LIBRARY else place / LIBRARY
    if folder is not None and not package.is_dir():
        raise ValueError(
            f"there is no {LIBRARY} in {place}; `course workbook DIR` makes one in DIR"
        )
    if package.is_dir():
        check_edition(package)
    kept = _read(package)
    return Progress({item: kept.get(item.name, {}).get("state", UNTOUCHED) for item in items()})


def items() -> list[Item]:
    """List everything that there is to do, in the order of the chapters."""
    built = [exercise(name) for name in exercises()]
    found = [Item(task.name, chapters()[task.module], "build", task.minutes) for task in built]
    found += [Item(task.name, task.chapter, task.kind, task.minutes) for task in tasks()]
    return sorted(found, key=lambda item: item.chapter)


def _read(package: Path) -> dict[str, dict[str, Any]]:
    """Read what was kept; what cannot be read is moved aside, and said."""
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
    print(f"{path} could not be read; it lies aside as {aside.name}", file=sys.stderr)
    return {}


def _sign(state: str) -> str:
    """Return the sign with which reports of a state begin."""
    return Report("", state == CORRECT, attempted=state == WRONG).title[0]
