"""Keep a training on disk, whole or not at all, so that it can go on after a stop (§5.2)."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

FORMAT = "course_lib checkpoint 1"


def save_checkpoint(path: Path | str, content: dict[str, Any]) -> None:
    """Write a checkpoint beside the old one, then put it in its place in one move.

    A process killed at any moment leaves the old checkpoint or the new one, never half of one.

    Args:
        path: Where; missing folders are made.
        content: Tensors, numbers, texts, and lists and dicts of them.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        torch.save({"format": FORMAT, **content}, beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def load_checkpoint(path: Path | str) -> dict[str, Any]:
    """Read a checkpoint; it can hold data only, so reading one never runs somebody's code.

    Args:
        path: A file that ``save_checkpoint`` wrote.

    Returns:
        Its content.

    Raises:
        ValueError: If there is no such file, it is cut off, or it is something else.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}; train one first")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch says about a foreign file, we say below
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # foreign bytes make torch's reader fail in a dozen ways
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{path} is cut off or no checkpoint of this course; move it away and train again "
            f"({type(error).__name__}: {reason})"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(
            f"{path} is no checkpoint of this course ({FORMAT!r} is missing); "
            "move it away and train again"
        )
    return content


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
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{path} is no checkpoint of {what}; take another folder, or move it away and train "
            f"again ({type(error).__name__}: {reason})"
        ) from None
