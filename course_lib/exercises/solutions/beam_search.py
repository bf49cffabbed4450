"""Chapter 13 in other words."""

import torch
from torch import Tensor


def penalty_by_logarithm(lengths, alpha):
    """Go through the logarithm."""
    return torch.exp(alpha * torch.log1p((lengths - 1) / 6))


def penalty_by_pow(lengths: Tensor, alpha: float) -> Tensor:
    """Call the power by its name."""
    return torch.pow(lengths.float().add(5).div(6), alpha)


def gnmt_penalty(length, alpha=0.6):
    """Divide two powers, as translation toolkits write it."""
    return (5.0 + length) ** alpha / 6.0**alpha


ANSWERS = {"length_penalty": (penalty_by_logarithm, penalty_by_pow, gnmt_penalty)}
