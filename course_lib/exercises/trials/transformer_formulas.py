"""Positions as a formula: what chapter 17's old trials compare with."""

import math
from functools import cache

import torch
from torch import Tensor

from course_lib.exercises.trials.transformer import APART, D_MODEL

__all__ = ["APART", "waves"]


@cache
def waves(length: int) -> Tensor:
    """Write §3.5 number by number."""
    turn = (math.sin, math.cos)
    rows = [
        [turn[i % 2](t / 10000 ** ((i - i % 2) / D_MODEL)) for i in range(D_MODEL)]
        for t in range(length)
    ]
    return torch.tensor(rows)
