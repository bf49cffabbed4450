"""Keep text in files: whole or not at all, and aside rather than lost."""

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_beside(path: Path, text: str) -> Iterator[Path]:
    """Write a text to a file beside another, which is gone again afterwards."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8", newline="")
        yield beside
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one move: a process killed at any moment leaves the old or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_beside(path, text) as beside:
        os.replace(beside, path)


def set_aside(path: Path) -> Path:
    """Move a file to the next free name beside it, and return that name."""
    aside = _free(path)
    os.replace(path, aside)
    return aside


def copy_aside(path: Path) -> Path:
    """Copy a file to the next free name beside it, and return that name."""
    aside = _free(path)
    shutil.copy2(path, aside)
    return aside


def _free(path: Path) -> Path:
    """Find the next free name for what is put aside."""
    places = (path.with_name(f"{path.name}.aside-{number}") for number in itertools.count(1))
    return next(place for place in places if not place.exists())
