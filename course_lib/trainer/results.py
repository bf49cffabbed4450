"""What trainings came to, in files that a person can read: never half of one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.atomic_write import write_whole

Entry = dict[str, Any]
RECORDS = Path(__file__).parents[1] / "tasks"


def record_of(name: str) -> Path:
    """Say where the record of a task lies, or of an experiment on it, such as ``"ablation"``."""
    return RECORDS / f"{name}.json"


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a record; none, if there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def read_record(name: str) -> list[Entry]:
    """Return the entries of the record that ``record_of`` finds."""
    return read_entries(record_of(name))


def add_entry(path: Path, entry: Entry, key: Callable[[Entry], list]) -> None:
    """Write an entry of finite numbers and texts into a record, a line for each.

    ``key`` tells two trainings apart, and sorts; an older entry of the same one is replaced.
    """
    kept = [other for other in read_entries(path) if key(other) != key(entry)]
    write_entries(path, sorted([*kept, entry], key=key))


def write_entries(path: Path, entries: list[Entry]) -> None:
    """Write a whole record, a line for each entry."""
    lines = ",\n".join(json.dumps(e, ensure_ascii=False, allow_nan=False) for e in entries)
    write_whole(path, f"[\n{lines}\n]\n")
