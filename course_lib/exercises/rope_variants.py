"""Rotations of several kinds, and what only looks like one: what a learner's test is tried on."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course_lib.positions import sinusoidal_encoding

Rotation = Callable[..., Tensor]


def angles(x: Tensor, start: int) -> Tensor:
    """Compute what pair i is turned by at each position, in float64."""
    T, d_k = x.shape[-2:]
    speeds = 10000.0 ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    return torch.outer(torch.arange(start, start + T, dtype=torch.float64), speeds)


def turned(x: Tensor, angle: Tensor) -> Tensor:
    """Turn columns 2i and 2i + 1 by angles ``(T, d_k / 2)``."""
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2).to(x)


def by_complex_numbers(x: Tensor, start: int = 0) -> Tensor:
    """Turn as the course does, by complex numbers."""
    return turned(x, angles(x, start))


def backwards(x: Tensor, start: int = 0) -> Tensor:
    """Turn the other way round."""
    return turned(x, -angles(x, start))


def halves_paired(x: Tensor, start: int = 0) -> Tensor:
    """Let columns i and i + d_k / 2 be a pair, as GPT-NeoX does."""
    angle = angles(x, start)
    (low, high), (c, s) = x.double().chunk(2, dim=-1), (angle.cos(), angle.sin())
    return torch.cat([low * c - high * s, low * s + high * c], dim=-1).to(x)


def code_added(x: Tensor, start: int = 0) -> Tensor:
    """Add chapter 03's table."""
    return x + sinusoidal_encoding(start + x.size(-2), x.size(-1))[start:].to(x)


def start_ignored(x: Tensor, start: int = 0) -> Tensor:
    """Begin at 0 every time."""
    return turned(x, angles(x, 0))


def twice_as_long(x: Tensor, start: int = 0) -> Tensor:
    """Turn, and double."""
    return 2 * turned(x, angles(x, start))


def along_another_axis(x: Tensor, start: int = 0) -> Tensor:
    """Let positions run along the last axis but two; where there is none, along one of size 1."""
    return by_complex_numbers(x.unsqueeze(0).transpose(-3, -2), start).transpose(-3, -2).squeeze(0)


def sign_lost(x: Tensor, start: int = 0) -> Tensor:
    """Lose the minus in one of the two formulas."""
    (a, b), angle = (x[..., 0::2], x[..., 1::2]), angles(x, start).to(x)
    pair = [a * angle.cos() + b * angle.sin(), a * angle.sin() + b * angle.cos()]
    return torch.stack(pair, dim=-1).flatten(-2)


# in float64 throughout: the course's own takes chapter 03's table, which is rounded to float32
RIGHT: Sequence[Rotation] = (by_complex_numbers, backwards, halves_paired)
WRONG: dict[str, tuple[str, Rotation]] = {
    "code_added": (
        "a code is added to every vector, which changes its length",
        code_added,
    ),
    "twice_as_long": (
        "every vector comes out twice as long: the scores know the distance alone, but a rotation "
        "keeps lengths",
        twice_as_long,
    ),
    "sign_lost": (
        "a sign is wrong in one of the two formulas, so that it is no rotation",
        sign_lost,
    ),
    "start_ignored": (
        "`start` is ignored: call it with rows from a later place on as well",
        start_ignored,
    ),
    "along_another_axis": (
        "positions run along another axis than the last but one: the rows of a head are all turned "
        "alike",
        along_another_axis,
    ),
}
