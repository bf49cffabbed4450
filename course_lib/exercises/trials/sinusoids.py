"""What is asked of chapter 03's table: the paper's waves, pair by pair, and a guard in words."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import D_K, B, H, T, Trial, function_trial, refuses, value_trial

MAX_LEN = 9


def table_by_loops(max_len: int, d_model: int) -> Tensor:
    """Fill the paper's table one number at a time."""
    table = torch.zeros(max_len, d_model)
    for p in range(max_len):
        for column in range(d_model):
            wave = math.cos if column % 2 else math.sin
            table[p, column] = wave(p * math.exp(-math.log(10000) * 2 * (column // 2) / d_model))
    return table


def tried(label: str, max_len: int, d_model: int) -> Trial:
    """Compare a table with the paper's, number by number."""
    sizes = {"max_len": max_len, "d_model": d_model}
    return function_trial(label, sizes, table_by_loops, ("table",))


def first_row(candidate: Callable) -> dict[str, Tensor]:
    """Return the row of position 0."""
    return {"the row of position 0": candidate(H, D_K)[0]}


def first_pair(candidate: Callable) -> dict[str, Tensor]:
    """Return the pair that turns by one radian per step."""
    return {"columns 0 and 1": candidate(MAX_LEN, D_K)[:, :2]}


def circles(candidate: Callable) -> dict[str, Tensor]:
    """Add up the squares of every pair of columns."""
    pairs = candidate(MAX_LEN, D_K).square().reshape(MAX_LEN, -1, 2)
    return {"sum of squares of each pair": pairs.sum(dim=-1)}


def prolonged(candidate: Callable) -> dict[str, bool]:
    """Look whether a longer table begins like a shorter one."""
    longer, shorter = candidate(20, D_K), candidate(MAX_LEN, D_K)
    same = torch.allclose(longer[:MAX_LEN], shorter, atol=1e-5)
    return {"a longer table begins like a shorter one": same}


def kind(candidate: Callable) -> dict[str, str]:
    """Return the type of the numbers."""
    return {"the type of the numbers": str(candidate(H, D_K).dtype)}


def verdict(candidate: Callable, length: int, max_len: int, *leading: int) -> Any:
    """Say whether a guard refuses; ``None`` is what it returns if not."""
    try:
        returned = candidate(torch.zeros(*leading, length, D_K), max_len, D_K)
    except ValueError:
        return "a ValueError"
    return returned if returned is None else "something is returned"


def guard_accepts(candidate: Callable) -> dict[str, Any]:
    """Call the guard with sequences that fit; it returns nothing."""
    return {
        "a short sequence": verdict(candidate, T, MAX_LEN, B),
        "a sequence as long as the table": verdict(candidate, MAX_LEN, MAX_LEN, B),
        "more sentences than the table has rows": verdict(candidate, T, MAX_LEN, 40),
        "a sequence without a batch": verdict(candidate, T, D_K - 1),
        "one word": verdict(candidate, 1, 1, 1),
    }


def guard_verdicts(candidate: Callable) -> dict[str, Any]:
    """Call the guard with sequences that do not fit; the messages must hold the numbers."""
    long, wide = torch.zeros(B, 23, D_K), torch.zeros(B, T, 8)
    return {
        "too many vectors": refuses(candidate, long, 17, D_K, words=[23, 17]),
        "one vector too many": verdict(candidate, MAX_LEN + 1, MAX_LEN, B),
        "too many vectors, without a batch": verdict(candidate, MAX_LEN + 1, MAX_LEN),
        "vectors of another width": refuses(candidate, wide, MAX_LEN, D_K, words=[8, D_K]),
        "another width, and as many as the table": refuses(candidate, wide, T, D_K),
    }


def lonely(candidate: Callable) -> dict[str, str]:
    """Call the guard with a vector that stands in no sequence."""
    try:
        return {"a single vector": refuses(candidate, torch.zeros(D_K), MAX_LEN, D_K)}
    except IndexError:
        return {"a single vector": "an IndexError"}


EXERCISES = (
    Exercise(
        "sinusoidal_encoding",
        "positions",
        15,
        (
            tried("sizes that differ", MAX_LEN, D_K),
            value_trial(
                "a look at position 0",
                first_row,
                {"the row of position 0": torch.tensor([0.0, 1.0] * 3)},
                says="At position 0 no pair has turned: its row is 0, 1, 0, 1, …",
            ),
            value_trial(
                "a look at the pairs of columns",
                circles,
                {"sum of squares of each pair": torch.ones(MAX_LEN, D_K // 2)},
                says="Columns 2i and 2i+1 hold sine and cosine of *one* angle: "
                "their squares add up to 1.",
            ),
            value_trial(
                "a look at the first pair",
                first_pair,
                {"columns 0 and 1": table_by_loops(MAX_LEN, D_K)[:, :2]},
                says="The first pair turns by one radian at every step: "
                "sine and cosine of the position itself.",
            ),
            value_trial(
                "tables of two lengths",
                prolonged,
                {"a longer table begins like a shorter one": True},
                says="The row of a position must not depend on the length of the table.",
            ),
            tried("as many positions as columns", 8, 8),
            tried("d_model=5, which is odd", MAX_LEN, 5),
            tried("d_model=1", T, 1),
            value_trial(
                "a look at the type",
                kind,
                {"the type of the numbers": "torch.float32"},
                stage="shape",
                says="The table is added to vectors of torch's default type, and has it too.",
            ),
        ),
        (
            "Make one angle for each position and each *pair* of columns: positions as a column "
            "`(max_len, 1)`, one frequency per pair as a row; broadcasting makes the table.",
            "`torch.arange(0, d_model, 2)` is the 2i of the formula. Divide the position by "
            "10000 ** (2i / d_model).",
            "`torch.stack([angle.sin(), angle.cos()], dim=-1)` puts each cosine beside its sine; "
            "`flatten(1)` lays the pairs out in a row. Cut off a last column that is too many.",
        ),
    ),
    Exercise(
        "check_fits",
        "positions",
        5,
        (
            value_trial(
                "sequences that fit",
                guard_accepts,
                dict.fromkeys(
                    (
                        "a short sequence",
                        "a sequence as long as the table",
                        "more sentences than the table has rows",
                        "a sequence without a batch",
                        "one word",
                    )
                ),
                says="What fits must pass in silence, a sequence as long as the table too.",
            ),
            value_trial(
                "sequences that do not fit",
                guard_verdicts,
                dict.fromkeys(
                    (
                        "too many vectors",
                        "one vector too many",
                        "too many vectors, without a batch",
                        "vectors of another width",
                        "another width, and as many as the table",
                    ),
                    "a ValueError",
                ),
                says="What does not fit needs a ValueError whose words hold both numbers.",
            ),
            value_trial(
                "a vector that stands in no sequence",
                lonely,
                {"a single vector": "a ValueError"},
                says="A sequence has at least two axes, (L, d_model): count them with `x.dim()`.",
            ),
        ),
        (
            "From the right, the axes are width and length: `x.size(-1)` and `x.size(-2)`, "
            "however many stand before them.",
            "`raise ValueError(f'…')` with both numbers in it: what came, and what fits.",
        ),
    ),
)
