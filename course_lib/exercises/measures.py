"""Numbers that trials of several chapters look at."""

import math

from torch import Tensor


def loudness(matrix: Tensor) -> float:
    """Return an embedding's standard deviation times √d_model, to one digit."""
    return round(float(matrix.detach().std()) * math.sqrt(matrix.size(1)), 1)


def reach(matrix: Tensor) -> float:
    """Return the largest number as a share of Glorot and Bengio's bound, to one digit."""
    return round(float(matrix.detach().abs().max()) / math.sqrt(6 / sum(matrix.shape)), 1)
