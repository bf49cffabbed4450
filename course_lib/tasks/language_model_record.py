"""What trainings came to: files that are committed, so that they can be read without them."""

from pathlib import Path
from typing import Any

from course_lib.trainer.results import add_entry, read_entries

RECORD = Path(__file__).with_name("language_model_record.json")
ABLATIONS = Path(__file__).with_name("ablation.json")
RUN = ("cut", "seed", "steps")  # what tells two trainings of ``tools/ablation.py`` apart


def read_record(path: Path = RECORD) -> list[dict[str, Any]]:
    """Return the entries that ``course train --task gpt --record`` wrote, one for each training.

    Of each: its ``settings``, ``val_loss`` on all windows of val, the ``history`` of it on the
    first ones, ``parameters``, ``minutes``, ``machine``, a ``sample``, and, of Python, the
    ``parse_rate`` of the lines it writes.
    """
    return read_entries(path)


def add_to_record(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry, in place of an older one of the same settings."""
    add_entry(path, entry, lambda e: list(e["settings"].values()))


def read_ablations(path: Path = ABLATIONS) -> list[dict[str, Any]]:
    """Return what ``tools/ablation.py`` wrote: every model of chapter 17, cut by cut, seed by seed.

    Of each: ``cut`` (0 for nothing cut away), ``name``, ``seed``, ``steps``, ``parameters``,
    ``val_loss`` and ``minutes``.
    """
    return read_entries(path)


def add_ablation(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry, in place of an older one of the same training."""
    add_entry(path, entry, lambda e: [e[name] for name in RUN])
