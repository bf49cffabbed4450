"""Atomic writes, which never leave a half-written file, and backups of replaced files."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path``, and delete the temporary file afterward."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write to a temporary file, and replace the original with it in one step.

    If the process is killed or the power fails, the file has either its old or its new contents.
    """
    with beside(path) as part:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)


def write_whole(path: Path, text: str) -> None:
    """Replace a text file in one step, using ``replacing``."""
    with replacing(path) as file:
        file.write(text.encode())


def set_aside(path: Path) -> Path:
    """Rename a file to the next unused backup name, and return its new path."""
    names = (path.with_name(f"{path.name}.aside-{number}") for number in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    os.replace(path, aside)
    return aside
