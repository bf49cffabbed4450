"""The numbers of a training: read from the command line, refused where they are impossible."""

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any


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


def check_from_one(config: Any, *names: str) -> None:
    """Refuse attributes that are no whole numbers from 1, by a ``ValueError`` that names one."""
    for name in names:
        value = getattr(config, name)
        if type(value) is not int or value < 1:
            raise ValueError(f"{name}={value!r} must be a whole number from 1")


def check_above_zero(config: Any, *names: str) -> None:
    """Refuse attributes that are no numbers above 0, also ``nan`` and infinity, likewise."""
    for name in names:
        value = getattr(config, name)
        if not 0 < value < math.inf:
            raise ValueError(f"{name}={value} must be a number above 0")


def check_between(config: Any, least: float, most: float, *names: str) -> None:
    """Refuse attributes that are no numbers from ``least`` to ``most``, also ``nan``, likewise."""
    for name in names:
        value = getattr(config, name)
        if not least <= value <= most:
            raise ValueError(f"{name}={value} must be in [{least:g}, {most:g}]")


def refuse_another(folder: Path, kept: Any, asked: Any) -> None:
    """Refuse to go on with a training of other numbers.

    Raises:
        ValueError: If the two configurations differ; the message says in what.
    """
    before = asdict(kept)
    now = asdict(asked)
    others = [f"{n}={before[n]!r}, not {now[n]!r}" for n in now if before[n] != now[n]]
    if others:
        raise ValueError(
            f"{folder} keeps a training with {'; '.join(others)}: "
            "ask for the same, or take another folder"
        )
