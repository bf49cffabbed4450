"""What is asked of chapter 16: how much of a batch is padding; then batches, and averages."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import refuses, value_trial
from course_lib.exercises.trials.batch_by_tokens import EXERCISES as BATCHES
from course_lib.exercises.trials.batch_by_tokens import tried
from course_lib.exercises.trials.evaluation import number
from course_lib.exercises.trials.weight_averaging import EXERCISES as AVERAGES

SHARES = {  # lengths, batches, the share
    "two pairs": ([(3, 3), (1, 2)], [[0, 1]], 3 / 12),
    "pairs that are each alone": ([(3, 5), (1, 2), (4, 4)], [[0], [1], [2]], 0.0),
    "pairs of one length": ([(3, 5), (3, 5), (3, 5)], [[0, 1, 2]], 0.0),
    "a long source and a long target": ([(2, 7), (5, 3)], [[0, 1]], 7 / 24),
    "a long and a short batch": ([(9, 9), (8, 6), (1, 1), (2, 1)], [[0, 1], [2, 3]], 5 / 42),
    "batches of three and of one": ([(2, 2), (1, 3), (4, 2), (9, 8)], [[1, 2, 0], [3]], 7 / 38),
    "pairs that stand in no batch": ([(9, 9), (1, 2), (5, 4), (2, 2)], [[3, 1]], 1 / 8),
    "a pair that stands in two batches": ([(1, 4), (3, 3)], [[0, 1], [0]], 3 / 19),
}
NO_SHARES = {
    "no batch": ([(3, 3), (1, 2)], []),
    "an empty batch": ([(3, 3), (1, 2)], [[]]),
    "an empty batch behind a full one": ([(3, 3), (1, 2)], [[0, 1], []]),
}


def kind(answer: Any) -> str:
    """Name what came out."""
    return "a number" if isinstance(number(answer), float) else type(answer).__name__


def shares_refused(candidate: Callable) -> dict[str, Any]:
    """Hand over batches that have no share."""
    return {name: refuses(candidate, *deepcopy(given)) for name, given in NO_SHARES.items()}


EXERCISES = (
    Exercise(
        "padding_fraction",
        "batching",
        8,
        (
            tried(
                "two pairs",
                {"two pairs": SHARES["two pairs"][:2]},
                lambda _, answer, *__: {"what comes out": kind(answer)},
                {"what comes out": "a number"},
                "shape",
                "One number, the share.",
            ),
            tried(
                "batches",
                {name: (lengths, batches) for name, (lengths, batches, _) in SHARES.items()},
                lambda name, answer, *_: {f"the share with {name}": number(answer)},
                {f"the share with {name}": share for name, (*_, share) in SHARES.items()},
                "equality",
                "Padding over all places; a batch is as wide as its longest source plus its "
                "longest target.",
            ),
            value_trial(
                "batches that have no share",
                shares_refused,
                dict.fromkeys(NO_SHARES, "a ValueError"),
                says="At least one batch, and a pair in each of them, or a ValueError.",
            ),
        ),
        (
            "Two counts are all you need: places with a token, and places. How wide is the "
            "rectangle of sources of one batch, and how wide that of its targets?",
            "Add `len(batch) * (max(sources) + max(targets))` over all batches; divide the tokens "
            "by the sum, and take that from 1.",
        ),
    ),
    *BATCHES,
    *AVERAGES,
)
