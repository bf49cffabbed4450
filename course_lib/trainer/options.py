"""The numbers of a training: read from the command line, refused where they are impossible."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

LEAST = 1e-9  # of numbers above 0
LARGEST = 9_999_999  # of whole numbers: a checkpoint's name has seven digits
LAST_SEED = 2**32 - 1


def setting_of(kind: type) -> Callable[[str], tuple[str, Any]]:
    """Make what reads NAME=VALUE into a value of the type that this field has by default."""
    types: dict[str, type] = {field.name: type(field.default) for field in fields(kind)}

    def setting(text: str) -> tuple[str, Any]:
        """Read one setting, or say what is wrong with it."""
        name, _, value = text.partition("=")
        if name not in types:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(types)}")
        truths = {"True": True, "False": False}
        try:
            return name, (truths.__getitem__ if types[name] is bool else types[name])(value)
        except (KeyError, ValueError):
            what = "True or False" if types[name] is bool else types[name].__name__
            raise argparse.ArgumentTypeError(f"{name} is {what}, not {value!r}") from None

    return setting


def whole_from_one(text: str) -> int:
    """Read a whole number from 1, or say what is wrong."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def check_range(config: Any, *names: str, least: float = 1, most: float | None = None) -> None:
    """Refuse attributes that are not from ``least`` to ``most``, by a ``ValueError`` with the name.

    Where ``least`` is a whole number, they are whole numbers, too; none is infinite.
    """
    whole = isinstance(least, int)
    kind = "a whole number" if whole else "a number"
    most = most if most is not None else LARGEST if whole else sys.float_info.max
    for name in names:
        value = getattr(config, name)
        if not least <= value <= most or (whole and type(value) is not int):
            raise ValueError(f"{name}={value!r} must be {kind} from {least:,} to {most:,}")


def shared_fields(kind: type, config: Any) -> dict[str, Any]:
    """Return what a configuration says of the fields that another kind of it has, too."""
    return {f.name: getattr(config, f.name) for f in fields(kind) if hasattr(config, f.name)}


def refuse_another(folder: Path, kept: Any, asked: Any) -> None:
    """Refuse to go on with a training of other numbers.

    Raises:
        ValueError: If the two configurations differ; the message says in what.
    """
    before = vars(kept)
    others = [f"{n}={before[n]!r}, not {v!r}" for n, v in vars(asked).items() if before[n] != v]
    if others:
        raise ValueError(
            f"{folder} keeps a training with {'; '.join(others)}: "
            "ask for the same, or take another folder"
        )
