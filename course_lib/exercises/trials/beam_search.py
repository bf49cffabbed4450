"""What is asked of chapter 13."""

import torch

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import Trial, function_trial

LENGTHS = torch.tensor([[1, 2, 7], [13, 25, 49]])
PENALTY = "((5 + lengths) / 6) ** alpha: five more than the length, and alpha is an exponent."


def penalties(alpha: float) -> Trial:
    """Compare the penalties of some lengths."""
    given = {"lengths": LENGTHS, "alpha": alpha}
    return function_trial(f"alpha={alpha}", given, ("penalty",), says=PENALTY)


EXERCISES = (
    Exercise(
        "length_penalty",
        "beam_search",
        5,
        core={"formula": (penalties(0.6),), "limits": (penalties(1.0), penalties(0.0))},
        hints=(
            "Five more than the length, divided by six: 1 for a single token.",
            "The exponent is alpha: `((5 + lengths) / 6) ** alpha`.",
        ),
    ),
)
