"""Keep what the bench measured, part by part, and draw the picture of it."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from timing import Row

from course_lib.atomic_write import write_whole
from course_lib.trainer.hardware import describe_machine
from course_lib.trainer.results import read_entries

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "bench.json"
DRAWING = ROOT / "figures" / "src" / "draw_all.py"  # knows how to load what draws


def keep(part: str, rows: Sequence[Row], order: Sequence[str], path: Path = RECORD) -> None:
    """Write the rows of a part into the record, in place of its older ones; keep other parts.

    Args:
        part: Whose rows these are; the machine that is here stands beside them.
        rows: What was measured.
        order: The parts, as they stand in the record.
        path: The record; a missing one is made.
    """
    entry = {"part": part, "machine": describe_machine("cpu"), "rows": list(rows)}
    entries = [other for other in read_entries(path) if other["part"] != part] + [entry]
    entries.sort(key=lambda entry: order.index(entry["part"]))
    write_whole(path, written(entries))


def written(entries: Sequence[dict[str, Any]]) -> str:
    """Write a record as JSON, a line for each row."""
    parts = []
    for entry in entries:
        head = {name: value for name, value in entry.items() if name != "rows"}
        rows = ",\n  ".join(_line(row) for row in entry["rows"])
        parts.append(f'{_line(head)[:-1]}, "rows": [\n  {rows}\n]}}')
    return "[\n" + ",\n".join(parts) + "\n]\n"


def _line(value: Any) -> str:
    """Write one line of JSON; what is no number is an error, not a word of JavaScript."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def picture() -> ModuleType:
    """Load what draws the record: ``figures/src/benchmark_charts.py``."""
    spec = importlib.util.spec_from_file_location("draw_all", DRAWING)
    drawings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawings)
    return drawings.load(DRAWING.with_name("benchmark_charts.py"))


def draw(path: Path = RECORD) -> str:
    """Draw a record into ``figures``, the folder beside its own; return what there is to say."""
    drawing = picture()
    entries = read_entries(path)
    missing = drawing.missing(entries)
    if missing:
        return f"no picture yet: the record has no part {', '.join(missing)}"
    target = path.parents[1] / "figures" / "benchmark_charts.svg"
    write_whole(target, drawing.drawn(entries))
    return f"drawn anew: {target.name}"
