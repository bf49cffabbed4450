"""Keep files whole or not at all, and aside rather than lost."""

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Name a file beside another, which is gone again afterwards; missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write beside a file, and put what was written in its place in one move.

    A process killed at any moment, or a computer that loses its power, leaves the old or the new.
    """
    with beside(path) as part:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)


def write_whole(path: Path, text: str) -> None:
    """Replace a text file in one move, as ``replacing`` does."""
    with replacing(path) as file:
        file.write(text.encode())


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
