"""Hyperparameters: their types and ranges, and how the command line reads them."""

import argparse
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

LEAST = 1e-9  # of numbers above 0
LARGEST = 9_999_999  # of integers: a checkpoint's name has seven digits
DEEPEST = 1_000  # layers
LAST_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(ABC):
    """Hold the hyperparameters that every task has.

    Raises ValueError if a value has another type than its field, or is out of range.
    """

    stacks: ClassVar[int] = 1  #: an encoder and a decoder are two
    seed: int = 0  #: decides the first weights, the order of the data, and what dropout drops
    num_layers: int = 2  #: depth of each stack
    d_model: int = 128  #: width of the vectors
    dropout: float = 0.0  #: its probability, in [0, 1]
    max_len: int = 64  #: longest sequence, in tokens
    bfloat16: bool = False  #: whether matrix products are computed in it while training

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            allowed = (float, int) if field.type is float else (field.type,)
            if type(value) not in allowed:
                name = getattr(field.type, "__name__", field.type)
                raise ValueError(f"{field.name}={value!r} must be of type {name}")
        check_range(self, "d_model", "max_len")
        check_range(self, "num_layers", most=DEEPEST)
        check_range(self, "dropout", least=0.0, most=1.0)
        check_range(self, "seed", least=0, most=LAST_SEED)

    @abstractmethod
    def of_model(self, vocab_size: int) -> object:
        """Return the hyperparameters of the model."""


def whole_from_one(text: str) -> int:
    """Read a positive integer, or say what is wrong."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def check_range(values: object, *names: str, least: float = 1, most: float | None = None) -> None:
    """Raise ValueError if an attribute is not from ``least`` to ``most``; the message names it.

    Where ``least`` is an integer, the values must be integers, too; none may be infinite.
    """
    whole = isinstance(least, int)
    kind = "an integer" if whole else "a number"
    most = most if most is not None else LARGEST if whole else sys.float_info.max
    for name in names:
        value = getattr(values, name)
        if not least <= value <= most or (whole and type(value) is not int):
            raise ValueError(f"{name}={value!r} must be {kind} from {least:,} to {most:,}")


def shared_fields(config_class: type, config: object) -> dict[str, Any]:
    """Return the values of those fields of a configuration that another class of them has, too."""
    names = [field.name for field in fields(config_class) if hasattr(config, field.name)]
    return {name: getattr(config, name) for name in names}


def check_same_config(folder: Path, stored: TrainingConfig, requested: TrainingConfig) -> None:
    """Raise ValueError if a folder keeps a training run with other hyperparameters than requested.

    The message names those that differ, and says what to do.
    """
    before = vars(stored)
    others = [f"{n}={before[n]!r}, not {v!r}" for n, v in vars(requested).items() if before[n] != v]
    if others:
        raise ValueError(
            f"{folder} keeps a training run with {'; '.join(others)}: "
            "ask for the same, take another folder, or delete this one"
        )
