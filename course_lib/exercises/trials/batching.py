"""What is asked of chapter 17: batches of a bounded number of tokens."""

from collections.abc import Sequence
from operator import index
from typing import Any

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import describe
from course_lib.exercises.scalar_checks import calls

Lengths = Sequence[tuple[int, int]]

MANY = [  # no two have the same longer and shorter side
    (5, 9), (2, 2), (7, 3), (4, 6), (9, 1), (1, 1), (6, 6), (8, 5), (3, 2), (4, 4), (7, 10), (1, 5),
    (6, 5), (2, 8), (9, 9), (3, 6), (2, 5), (8, 8), (1, 7), (10, 3), (4, 1), (7, 7), (9, 4), (5, 5),
]  # fmt: skip
CUTS = {
    "three pairs": ([(2, 2), (9, 9), (2, 1)], 20),
    "sources and targets that are longer": ([(6, 2), (2, 5), (1, 1), (3, 4)], 24),
    "short sources": ([(1, 6), (2, 7), (1, 8)], 16),
    "a wide pair that opens a batch": ([(1, 5), (5, 5), (6, 1)], 19),
    "narrow pairs behind a wide one": ([(9, 2), (2, 10), (2, 11)], 30),
    "a pair that would fit further up": ([(9, 2), (2, 10), (11, 3)], 30),
    "a pair as long as a batch": ([(7, 5), (2, 1), (3, 1)], 12),
    "pairs of equal lengths": ([(3, 5), (4, 2), (3, 5), (4, 4), (4, 2), (3, 5)], 30),
    "24 pairs": (MANY, 60),
}


def by_lengths(answer: Any, lengths: Lengths, tokens: int) -> dict[str, Any]:
    """Write batches out as lengths: of two equal pairs either may stand first."""
    held = answer if isinstance(answer, list | tuple) else [answer]
    if held is not answer or not all(isinstance(batch, list | tuple) for batch in held):
        raise TypeError(f"lists of indices should come out, and not {describe(answer)}")
    batches = [[*map(index, batch)] for batch in held]
    known = {i: str(pair) for i, pair in enumerate(lengths)}
    return {
        "indices": str(sorted(sum(batches, []))),
        "batches": str([" ".join(known.get(i, "none") for i in batch) for batch in batches]),
    }


EXERCISES = (
    Exercise(
        "batch_by_tokens",
        "batching",
        20,
        core={
            "batches": (
                calls(
                    "pairs of several lengths",
                    CUTS,
                    by_lengths,
                    says="Each pair in one batch, sorted by the longer side, then by the shorter "
                    "one; where B · (S + T) would be more than `tokens`, a batch ends.",
                ),
            )
        },
        hints=(
            "`sorted(range(len(lengths)), key=…)` puts indices in order, not lengths. What is the "
            "key, if the longer side counts first and then the shorter one?",
            "Keep the batch you are filling, and its longest source and target. What would both "
            "be with the next pair, and how many positions would that make?",
            "If `(len(batch) + 1) * (S + T)` is more than `tokens`, put the batch aside and begin "
            "a new one with this pair, as wide as this pair. The last batch is put aside as well.",
        ),
        extras={"no pairs": (calls("no pairs", {"no pairs": ([], 20)}, by_lengths),)},
    ),
)
