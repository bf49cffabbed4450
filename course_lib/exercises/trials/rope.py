"""What is asked of chapter 19's rotation: the matrix exponential's, and what it promises."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import (
    D_K,
    B,
    H,
    T,
    Trial,
    function_trial,
    normal,
    refuses,
    value_trial,
)

LENGTH = 7
ONLY = torch.tensor([0.0, 0.0, 1.0, 0.5, 0.0, 0.0])  # of three pairs, the second
ODD = "an odd width is a ValueError"


def turned(x: Tensor, start: int = 0) -> Tensor:
    """Turn by matrices: e to the power of p times the one that turns by a right angle."""
    T, d_k = x.shape[-2:]
    speeds = 10000 ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    whole = torch.block_diag(*(speed * quarter for speed in speeds))  # (d_k, d_k)
    place = torch.arange(start, start + T, dtype=torch.float64)[:, None, None]
    turns = torch.linalg.matrix_exp(place * whole)  # (T, d_k, d_k)
    return torch.einsum("tij,...tj->...ti", turns, x.double()).to(x.dtype)


def tried(label: str, x: Tensor, start: int | None = None) -> Trial:
    """Compare output and gradients with the matrices; the start is given by place."""
    inputs = {"x": x} if start is None else {"x": x, "start": start}
    return function_trial(label, inputs, turned)


def lengths(candidate: Callable) -> dict[str, Tensor]:
    """Measure vectors that have length 1."""
    x = torch.nn.functional.normalize(normal("x", B, H, T, D_K), dim=-1)
    return {"length of each vector": candidate(x).norm(dim=-1)}


def first(candidate: Callable) -> dict[str, Tensor]:
    """Return the row of position 0."""
    return {"the row of position 0": candidate(normal("x", T, D_K))[0]}


def pairs(candidate: Callable) -> dict[str, bool]:
    """Turn vectors that are zero outside of columns 2 and 3, and look where something comes out."""
    output = candidate(ONLY.repeat(LENGTH, 1)).abs().amax(dim=0) > 1e-4
    return {f"something in column {n}": bool(there) for n, there in enumerate(output)}


def scores(candidate: Callable) -> Tensor:
    """Score one query with one key, from every place to every place."""
    q, k = (normal(name, D_K).repeat(LENGTH, 1) for name in ("a query", "a key"))
    return candidate(q) @ candidate(k).mT  # (LENGTH, LENGTH)


def distances(candidate: Callable) -> dict[str, bool]:
    """Look whether scores at one distance are alike, and at two distances not."""
    found = scores(candidate)
    lines = [found.diagonal(d) for d in range(1 - LENGTH, LENGTH)]
    return {
        "the same at the same distance": all((x - x[0]).abs().max() < 1e-3 for x in lines),
        "other at another distance": bool((found[-1].diff().abs() > 1e-3).all()),
    }


def later(candidate: Callable) -> dict[str, bool]:
    """Turn the last rows alone, and look whether they come out as among all."""
    x = normal("x", B, H, LENGTH, D_K)
    alone, among = candidate(x[..., 4:, :].clone(), 4), candidate(x.clone())[..., 4:, :]
    same = alone.shape == among.shape and torch.allclose(alone, among, atol=1e-4)
    return {"row 4 from start=4 is row 4 of all": same}


def alike(candidate: Callable) -> dict[str, bool]:
    """Turn the same rows in every head and sentence."""
    rows = normal("x", T, D_K)
    output = candidate(rows.expand(B, H, T, D_K).clone())
    return {"all heads and sentences are turned alike": torch.allclose(output, output[:1, :1])}


def step(candidate: Callable) -> dict[str, Tensor]:
    """Turn (1, 0), once in every pair, by one step."""
    return {"row 1": candidate(torch.tensor([[1.0, 0.0] * 3] * 2))[1]}


def odd(candidate: Callable) -> dict[str, str]:
    """Turn vectors whose last column has no partner."""
    return {ODD: refuses(candidate, normal("odd", T, 5))}


PROMISES = (
    value_trial(
        "a look at the lengths",
        lengths,
        {"length of each vector": torch.ones(B, H, T)},
        says="A rotation leaves every length as it is.",
    ),
    value_trial(
        "a look at position 0",
        first,
        {"the row of position 0": normal("x", T, D_K)[0]},
        says="At position 0 the angle is 0: that row comes out as it was.",
    ),
    value_trial(
        "heads and sentences that are alike",
        alike,
        {"all heads and sentences are turned alike": True},
        says="Positions run along the last axis but one; the axes before it are all turned alike.",
    ),
    value_trial(
        "numbers in columns 2 and 3 only",
        pairs,
        {f"something in column {n}": n in (2, 3) for n in range(D_K)},
        says="Columns 2i and 2i + 1 are a pair: what is turned there comes out there.",
    ),
    value_trial(
        "one query and one key at many places",
        distances,
        {"the same at the same distance": True, "other at another distance": True},
        says="A score depends on the distance of the two places, and on nothing else.",
    ),
    value_trial(
        "a start that is not 0",
        later,
        {"row 4 from start=4 is row 4 of all": True},
        says="`start` is the position of the first row; a cache needs it.",
    ),
    value_trial(
        "one step of (1, 0)",
        step,
        {"row 1": turned(torch.tensor([[1.0, 0.0] * 3] * 2))[1]},
        says="One step turns the pair (1, 0) into (cosine, sine) of its angle: 1 for the first "
        "pair, and slower from pair to pair.",
    ),
)

EXERCISES = (
    Exercise(
        "apply_rope",
        "modern_decoder",
        20,
        (
            tried("sizes that differ", normal("x", B, H, T, D_K)),
            *PROMISES,
            tried("start=5", normal("x", B, H, T, D_K), 5),
            tried("no axes before the two", normal("x", LENGTH, D_K)),
            tried("one axis before the two", normal("x", B, T, D_K)),
            tried("sizes that are all equal", normal("even", 4, 4, 4, 4)),
            tried("one row, at start=30", normal("one", 1, D_K), 30),
            tried("one pair of columns", normal("pair", B, LENGTH, 2)),
            value_trial(
                "an odd width",
                odd,
                {ODD: "a ValueError"},
                says="Pairs cannot be made of an odd width: that needs a ValueError.",
            ),
        ),
        (
            "Chapter 03's table has the sine and the cosine of every angle you need, one row for "
            "each position. Which rows of it are due from `start` on?",
            "`x[..., 0::2]` and `x[..., 1::2]` are the two columns of all pairs. A pair (a, b) "
            "becomes (a · cos - b · sin, a · sin + b · cos).",
            "`torch.stack([…, …], dim=-1)` puts the two of a pair side by side again, and "
            "`flatten(-2)` lays the pairs out in a row.",
        ),
    ),
)
