"""What is asked of chapter 13: the length penalty."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import value_trial

PENALTY = "((5 + lengths) / 6) ** alpha: the length counts twice over, α is an exponent."


def penalties(candidate: Callable) -> dict[str, Any]:
    """Ask for some penalties, of whole numbers and of others."""
    lengths = torch.tensor([[1, 2, 7], [13, 25, 49]])
    return {
        "alpha=0.6": candidate(lengths, 0.6),
        "alpha=1": candidate(lengths.float(), 1.0),
        "alpha=0": candidate(lengths, 0.0),
    }


def right_penalties() -> dict[str, Tensor]:
    """Work the same out number by number."""
    rows = [[1, 2, 7], [13, 25, 49]]
    return {
        name: torch.tensor([[math.exp(a * math.log((5 + n) / 6)) for n in row] for row in rows])
        for name, a in (("alpha=0.6", 0.6), ("alpha=1", 1.0), ("alpha=0", 0.0))
    }


EXERCISES = (
    Exercise(
        "length_penalty",
        "beam_search",
        5,
        (
            value_trial(
                "some lengths", penalties, right_penalties(), stage="equality", says=PENALTY
            ),
        ),
        (
            "Five more than the length, divided by six: 1 for a single token.",
            "The exponent is alpha: `((5 + lengths) / 6) ** alpha`.",
        ),
    ),
)
