"""Hyperparameters: their types and ranges."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from course_lib.support.input_checks import check_choice

LEAST = 1e-9  # of numbers above 0
LARGEST = 9_999_999  # of integers: a checkpoint's name has seven digits
DEEPEST = 1_000  # layers
LAST_SEED = 2**32 - 1
Ranges = dict[str, tuple[float, float]]  # of a field, the least and the largest value


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(ABC):
    """The hyperparameters that every task has.

    Raises ValueError if a value has the wrong type or is out of range, or if no model can
    have these sizes.
    """

    stacks: ClassVar[int] = 1  #: the number of stacks: 2 for an encoder and a decoder
    choices: ClassVar[dict[str, Collection[str]]] = {}  #: the allowed values of string fields
    ranges: ClassVar[Ranges] = {  #: of numbers that may be 0 or have their own limit
        "seed": (0, LAST_SEED),
        "num_layers": (1, DEEPEST),
        "dropout": (0.0, 1.0),
    }
    seed: int = 0  #: determines the initial weights, the order of the data, and dropout
    num_layers: int = 2  #: depth of each stack
    d_model: int = 128  #: width of the vectors
    dropout: float = 0.0  #: dropout probability, in [0, 1]
    max_len: int = 64  #: maximum sequence length, in tokens
    bfloat16: bool = False  #: whether training computes matrix products in bfloat16

    def __post_init__(self) -> None:
        usual = {int: (1, LARGEST), float: (LEAST, sys.float_info.max)}
        for field in fields(self):
            name = field.name
            value = getattr(self, name)
            expected = type(field.default)
            if type(value) is not expected and (expected, type(value)) != (float, int):
                raise ValueError(f"{name}={value!r} must be of type {expected.__name__}")
            if expected is str:
                check_choice(name, value, self.choices[name])
            if expected in usual:
                check_range(name, value, *self.ranges.get(name, usual[expected]))
        self.of_model(vocab_size=1)  # it raises an error if the heads do not divide the width

    @abstractmethod
    def of_model(self, vocab_size: int) -> object:
        """Return the hyperparameters of the model."""


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise ValueError, naming the number, if it is below ``least`` or above ``most``."""
    if not least <= value <= most:
        raise ValueError(f"{name}={value!r} must be from {least:,} to {most:,}")


def shared_fields(config_class: type, config: object) -> dict[str, Any]:
    """Return the values of the fields that a configuration has in common with another class."""
    names = [field.name for field in fields(config_class) if hasattr(config, field.name)]
    return {name: getattr(config, name) for name in names}


def check_same_config(folder: Path, stored: TrainingConfig, requested: TrainingConfig) -> None:
    """Raise ValueError, naming the differences, if a folder's run has a different configuration."""
    before = vars(stored)
    others = [f"{n}={before[n]!r}, not {v!r}" for n, v in vars(requested).items() if before[n] != v]
    if others:
        raise ValueError(
            f"{folder} contains a training run with {'; '.join(others)}: "
            "use the same configuration, choose another folder, or delete this one"
        )
