"""Enough bits for squares and long sums, which are infinite or inexact in 16 bits."""

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """Convert numbers of 16 bits to float32, and leave wider ones as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
