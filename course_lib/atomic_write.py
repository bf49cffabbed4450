"""Keep files whole or not at all, and aside rather than lost."""

import itertools
import os
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
    names = (path.with_name(f"{path.name}.aside-{number}") for number in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    os.replace(path, aside)
    return aside
