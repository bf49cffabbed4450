"""Numbers that trials of several chapters look at."""

import math
from numbers import Real
from typing import Any

from torch import Tensor

from course_lib.exercises.outcomes import describe


def number(value: Any) -> float:
    """Turn every form of a number into a float.

    Raises:
        TypeError: If it is no number.
    """
    if isinstance(value, Real) or isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach() if isinstance(value, Tensor) else value)
    raise TypeError(f"a number should come out, and not {describe(value)}")


def loudness(matrix: Tensor) -> float:
    """Return an embedding's standard deviation times √d_model, to one digit."""
    return round(float(matrix.detach().std()) * math.sqrt(matrix.size(1)), 1)


def reach(matrix: Tensor) -> float:
    """Return the largest number as a share of Glorot and Bengio's bound, to one digit."""
    return round(float(matrix.detach().abs().max()) / math.sqrt(6 / sum(matrix.shape)), 1)
