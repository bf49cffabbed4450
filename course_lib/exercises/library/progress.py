"""Store a learner's progress in a file in their package, and show it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from course_lib.exercises.checking.contents import Item, chapters, items, module_of
from course_lib.exercises.checking.report import CORRECT, SIGNS, UNTOUCHED, WRONG, Report
from course_lib.exercises.library.kept_file import KeptFile
from course_lib.exercises.library.package import LIBRARY, find_library

CELLS = 10  # of a bar
STATES = (UNTOUCHED, WRONG, CORRECT)
PROGRESS = KeptFile("progress.json", "your progress", lambda entry: entry["state"] in STATES)


@dataclass(frozen=True, repr=False)
class Progress:
    """The state of every exercise and question, chapter by chapter."""

    states: dict[Item, str]

    def __repr__(self) -> str:
        """Show a line with a bar for each chapter."""
        return self.bars()

    def listing(self) -> str:
        """Show a line for each chapter, followed by a line for each of its items."""
        lines = [self._summary, ""]
        for heading, states in self._chapters():
            lines.append(f"{_sign(states.values())} {heading:27}  {_done_and_left(states)}")
            lines += [f"    {_sign([states[item]])} {item}" for item in states]
        return "\n".join(lines)

    def bars(self) -> str:
        """Show a line with a bar for each chapter."""
        lines = [self._summary, ""]
        for heading, states in self._chapters():
            left = [item.minutes for item, state in states.items() if state != CORRECT]
            done = len(states) - len(left)
            full = CELLS * done // len(states)
            bar = "█" * full + "░" * (CELLS - full)
            count = f"{done:2} of {len(states):2}  {sum(left):3} min left"
            lines.append(f"{_sign(states.values())} {heading:27}  {bar}  {count}")
        return "\n".join(lines)

    def parts(self) -> str:
        """Show a line for each module, and mark the definitions that the learner has written."""
        built = {item.name: state for item, state in self.states.items() if item.kind == "build"}
        mine = sum(state == CORRECT for state in built.values())
        lines = [f"{mine} of {len(built)} parts pass their checks", ""]
        for module, names in groupby(built, module_of):
            marked = "  ".join(f"{_sign([built[name]])} {name}" for name in names)
            lines.append(f"{module:16}  {marked}")
        return "\n".join(lines)

    @property
    def next_item(self) -> Item | None:
        """Return the first item that is not done."""
        return next((item for item, state in self.states.items() if state != CORRECT), None)

    def after(self, name: str, verb: str = "is done") -> str:
        """Count the parts that are done once ``name`` is, and say what is next.

        That is an item of the same chapter or, if none is left there, a chapter. ``verb`` says what
        ``name`` is now.
        """
        listed = list(self.states)
        here = next((item for item in listed if item.name == name), listed[0])
        built = [item for item in listed if item.kind == "build"]
        done = sum(self.states[item] == CORRECT or item is here for item in built)
        told = f"`{name}` {verb}: {done} of {len(built)}. " if here in built else ""
        left = [item for item in listed if self.states[item] != CORRECT and item is not here]
        later = [item for item in left if item.chapter >= here.chapter]
        for item in (later or left)[:1]:
            stays = item.chapter == here.chapter
            told += f"Next: `{item.name}` ({item.minutes} min)." if stays else ""
            told += "" if stays else f"Next: chapter {item.chapter:02}."
        return told.rstrip()

    @property
    def _summary(self) -> str:
        """Count the items that are done, and say how long the next one takes."""
        done = sum(state == CORRECT for state in self.states.values())
        item = self.next_item
        told = f"; the next one takes about {item.minutes} min" if item else ""
        return f"{done} of {len(self.states)} done{told}"

    def _chapters(self) -> Iterator[tuple[str, dict[Item, str]]]:
        """Yield a heading for each chapter with the states of its items."""
        for number, pairs in groupby(self.states.items(), lambda pair: pair[0].chapter):
            modules = [module for module, chapter in chapters().items() if chapter == number]
            yield " · ".join([f"Chapter {number:02}", *modules]), dict(pairs)


def note(report: Report, verb: str = "is done") -> Report:
    """Save the state of an exercise if the current folder has a ``my_lib``; return the report.

    Once an exercise is correct, it stays done, whatever its latest state is. The report then says
    what comes next, and with ``verb`` what the answer is now. Nothing is sent anywhere.
    """
    package = Path(LIBRARY)
    if package.is_dir() and report.state != UNTOUCHED:
        PROGRESS.change(package, lambda entries: _add(report, entries))
        if report.passed:
            after = f"{report.after} {progress().after(report.name, verb)}".lstrip()
            return replace(report, after=after)
    return report


def progress(folder: Path | str | None = None) -> Progress:
    """Return the progress in a workbook (default: the current folder, even without ``my_lib``)."""
    library = Path(LIBRARY) if folder is None else find_library(Path(folder))
    entries = PROGRESS.read(library)
    done = {name: CORRECT for name, entry in entries.items() if entry.get("done")}
    states = {name: str(entry["state"]) for name, entry in entries.items()} | done
    return Progress({item: states.get(item.name, UNTOUCHED) for item in items()})


def noted(package: Path, name: str) -> dict[str, str | None]:
    """Return the latest attempt's state and mistake; each is None if it is not stored."""
    entry = PROGRESS.read(package).get(name, {})
    mistake = entry.get("mistake")
    return {"state": entry.get("state"), "mistake": mistake if isinstance(mistake, str) else None}


def _add(report: Report, entries: dict[str, Any]) -> bool:
    """Add a report, and whether the exercise was ever correct; return ``True`` to save it."""
    before = entries.get(report.name, {})
    done = report.passed or before.get("done", before.get("state") == CORRECT)
    entries[report.name] = {"state": report.state, "mistake": report.mistake, "done": done}
    return True


def _done_and_left(states: Mapping[Item, str]) -> str:
    """Count the items that are done, and add up the time for the others."""
    left = [item.minutes for item, state in states.items() if state != CORRECT]
    hours, minutes = divmod(sum(left), 60)
    done = len(states) - len(left)
    return f"{done} of {len(states)} done, about {hours} h {minutes} min left"


def _sign(states: Collection[str]) -> str:
    """Return the symbol that summarizes several states."""
    if {*states} == {CORRECT, UNTOUCHED}:
        return "◐"  # begun, and nothing is wrong
    done = set(states) == {CORRECT}
    return SIGNS[CORRECT if done else UNTOUCHED if set(states) == {UNTOUCHED} else WRONG]
