"""Chapter 13 in other words."""

import torch
from torch import Tensor


def penalty_by_logarithm(lengths, alpha):
    """Go through the logarithm."""
    return torch.exp(alpha * torch.log1p((lengths - 1) / 6))


def penalty_by_pow(lengths: Tensor, alpha: float) -> Tensor:
    """Call the power by its name."""
    return torch.pow(lengths.float().add(5).div(6), alpha)


ANSWERS = {"length_penalty": (penalty_by_logarithm, penalty_by_pow)}
