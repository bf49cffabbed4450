"""What is asked of chapter 03's table: the paper's waves, pair by pair, and a guard in words."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import D_K, H, T, Trial, function_trial, value_trial

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
)
