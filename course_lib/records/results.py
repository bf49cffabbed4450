"""Recorded results, in readable files that are replaced in one step."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.support.atomic_write import write_whole
from course_lib.support.input_checks import first_line

Entry = dict[str, Any]
RECORDS = Path(__file__).parent


def record_of(name: str) -> Path:
    """Return the path to the record of a task, or of an experiment such as ``"ablation"``."""
    return RECORDS / f"{name}.json"


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a record, or none if there is no such file.

    Raises ValueError if the file is not a list of entries.
    """
    if not path.exists():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a record ({first_line(error)})") from None
    if type(entries) is not list or not all(type(entry) is dict for entry in entries):
        raise ValueError(f"{path} is not a record: it must be a list of entries")
    return entries


def read_record(name: str) -> list[Entry]:
    """Return the entries of the record that ``record_of`` finds."""
    return read_entries(record_of(name))


def add_entry(path: Path, entry: Entry, key: Callable[[Entry], list]) -> None:
    """Add an entry of finite numbers and strings to a record, which has one line per entry.

    ``key`` identifies the runs and sets their order; an entry with the same key is replaced.
    """
    others = [other for other in read_entries(path) if key(other) != key(entry)]
    write_entries(path, sorted([*others, entry], key=key))


def write_entries(path: Path, entries: list[Entry]) -> None:
    """Write a whole record, one line per entry."""
    lines = ",\n".join(json.dumps(e, ensure_ascii=False, allow_nan=False) for e in entries)
    write_whole(path, f"[\n{lines}\n]\n")
