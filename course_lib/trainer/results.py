"""What trainings came to, in files that a person can read: never half of one."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from course_lib.atomic_write import write_whole

Entry = dict[str, Any]


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a record; none, if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def add_entry(path: Path, entry: Entry, key: Callable[[Entry], list]) -> None:
    """Write an entry into a record, in place of an older one of the same run.

    Args:
        path: The record, a line for each entry; a missing one is made.
        entry: Texts, finite numbers, and lists and dicts of them.
        key: What tells two runs apart; entries are sorted by it.
    """
    kept = [other for other in read_entries(path) if key(other) != key(entry)]
    kept = sorted([*kept, entry], key=key)
    lines = ",\n".join(json.dumps(e, ensure_ascii=False, allow_nan=False) for e in kept)
    write_whole(path, f"[\n{lines}\n]\n")


def note_minutes(history: Sequence[Entry], seconds: dict[str, float]) -> None:
    """Add to the last line of a history the minutes spent by each clock, unless it has them."""
    for line in history[-1:]:
        for name, spent in seconds.items():
            line.setdefault(f"{name}_minutes", spent / 60)


def write_log(path: Path, config: Any, history: Sequence[Entry]) -> None:
    """Write a history anew, a line for each time that was measured: nothing stands in it twice."""
    lines = [" ".join(f"{name}={value:.6g}" for name, value in line.items()) for line in history]
    write_whole(path, "\n".join([f"# {config}", *lines]) + "\n")
