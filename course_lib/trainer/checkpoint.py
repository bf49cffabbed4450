"""Keep a training on disk, whole or not at all."""

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from course_lib.atomic_write import replacing

FORMAT = "course_lib checkpoint 2"
OLD_FORMAT = "course_lib checkpoint 1"
AGAIN = "move it away and train again"
QUOTED = 200  # characters of somebody else's words in an error


def save_checkpoint(path: Path | str, content: dict[str, Any]) -> None:
    """Write a checkpoint beside the old one, then put it in its place in one move.

    A process killed at any moment leaves the old checkpoint or the new one, never half of one.

    Args:
        path: Where; missing folders are made.
        content: Tensors, numbers, texts, and lists and dicts of them.

    Raises:
        OSError: If it cannot be written; the old one stays.
    """
    with replacing(Path(path)) as file:
        try:
            torch.save({"format": FORMAT, **content}, file)
        except RuntimeError as error:  # so torch calls a disk that is full
            raise OSError(f"{path} could not be written: {first_line(error)}") from None


def load_checkpoint(path: Path | str) -> dict[str, Any]:
    """Read what ``save_checkpoint`` wrote: data only, so reading never runs somebody's code.

    Raises:
        ValueError: If there is no such file, it is cut off or changed, or it is something else.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}; train one first")
    try:
        with zipfile.ZipFile(path) as parts:
            harmed = parts.testzip()  # torch reads past a wrong check sum
        if harmed is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what torch says about a foreign file, we say
                content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # foreign bytes make readers fail in a dozen ways
        why = f"is cut off or no checkpoint of this course ({type(error).__name__})"
        raise ValueError(f"{path} {why}; {AGAIN}") from None
    if harmed is not None:
        raise ValueError(f"{path} was changed since it was written; {AGAIN}")
    found = content.get("format") if isinstance(content, dict) else None
    if found == OLD_FORMAT:
        raise ValueError(f"{path} is of the course's first edition; {AGAIN}")
    if found != FORMAT:
        raise ValueError(f"{path} is no checkpoint of this course ({FORMAT!r} is missing); {AGAIN}")
    return content


def first_line(error: BaseException) -> str:
    """Quote the beginning of an error: one line, and not all of a long one."""
    return str(error).partition("\n")[0][:QUOTED]


@contextmanager
def explaining(path: Path | str, what: str) -> Iterator[None]:
    """Put into one sentence whatever goes wrong while a checkpoint's content is put to use.

    Args:
        path: Where it was read.
        what: What it should be of, such as ``"a GPT"``.

    Raises:
        ValueError: If a name is missing, a value is of another kind, or a shape does not fit.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{path} is no checkpoint of {what}; take another folder, or {AGAIN} "
            f"({type(error).__name__}: {first_line(error)})"
        ) from None
