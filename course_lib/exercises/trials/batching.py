"""What is asked of chapter 16: padding, batches of a bounded number of tokens, mean weights."""

from collections.abc import Sequence
from operator import index
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trial import S, T, normal
from course_lib.exercises.value_trials import calls, fraction, refusals

Lengths = Sequence[tuple[int, int]]

FRACTIONS = {  # lengths, batches
    "a long source and a long target": ([(2, 7), (5, 3)], [[0, 1]]),
    "pairs of one length": ([(3, 5), (3, 5), (3, 5)], [[0, 1, 2]]),
    "a long and a short batch": ([(9, 9), (8, 6), (1, 1), (2, 1)], [[0, 1], [2, 3]]),
    "batches of three and of one": ([(2, 2), (1, 3), (4, 2), (9, 8)], [[1, 2, 0], [3]]),
    "pairs that stand in no batch": ([(9, 9), (1, 2), (5, 4), (2, 2)], [[3, 1]]),
}
NO_FRACTIONS = {
    "no batch": ([(3, 3), (1, 2)], []),
    "an empty batch behind a full one": ([(3, 3), (1, 2)], [[0, 1], []]),
}
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


def faults(answer: Any, lengths: Lengths, tokens: int) -> dict[str, int]:
    """Count what is wrong with batches."""
    by_lengths(answer, lengths, tokens)  # or a TypeError
    known = [[i for i in batch if 0 <= i < len(lengths)] for batch in answer]
    keys = [(max(lengths[i]), min(lengths[i])) for batch in known for i in batch]
    following = zip(known, known[1:], strict=False)
    return {
        "pairs that stand in no batch": len(set(range(len(lengths))) - set(sum(known, []))),
        "batches of more than `tokens` positions": sum(
            positions(lengths, batch) > tokens for batch in known
        ),
        "pairs right behind a longer one": sum(
            one > other for one, other in zip(keys, keys[1:], strict=False)
        ),
        "batches with room for the next pair": sum(
            positions(lengths, [*batch, *after[:1]]) <= tokens for batch, after in following
        ),
    }


def positions(lengths: Lengths, batch: Sequence[int]) -> int:
    """Count the positions of a batch, B · (S + T)."""
    return len(batch) * sum(max(lengths[i][side] for i in batch) for side in (0, 1)) if batch else 0


def checkpoint(seed: str) -> dict[str, Tensor]:
    """Make the weights of one checkpoint; two names share one tensor."""
    table = normal(f"{seed} table", S, T)
    return {
        "norm.weight": normal(f"{seed} gain", S) + 1,
        "embedding.weight": table,
        "output.weight": table,
    }


def each(name: str, *values: Any, dtype: torch.dtype = torch.float32) -> tuple[list[dict]]:
    """Make a checkpoint of every value, under one name."""
    return ([{name: torch.tensor(value, dtype=dtype)} for value in values],)


def weights(answer: Any, states: Any) -> dict[str, Any]:
    """Show means and dtypes by name."""
    held = [*answer.values()] if isinstance(answer, dict) else [answer]
    if not held or held == [answer] or not all(isinstance(x, Tensor) for x in held):
        raise TypeError(f"a dict of tensors should come out, and not {describe(answer)}")
    return {
        name: {"mean": x.detach().double(), "dtype": str(x.dtype)} for name, x in answer.items()
    }


A, B, C, D, E = map(checkpoint, "abcde")
MISFITS = {
    "no checkpoints": ([],),
    "a name that the second lacks": ([A, dict([*B.items()][:-1])],),
    "a name more in the second": ([A, B | {"bias": torch.zeros(S)}],),
    "another shape": each("w", [1.0, 2.0, 3.0], [1.0] * 4),
    "a shape that could be broadcast": each("w", [1.0, 2.0, 3.0], [1.0]),
}

EXERCISES = (
    Exercise(
        "padding_fraction",
        "batching",
        8,
        core={
            "one batch": (calls("two pairs", {"fraction": ([(3, 3), (1, 2)], [[0, 1]])}),),
            "several batches": (
                calls(
                    "several batches",
                    FRACTIONS,
                    fraction,
                    says="Padding over all positions; a batch is as wide as its longest source "
                    "plus its longest target.",
                ),
            ),
        },
        hints=(
            "Two counts are all you need: positions with a token, and positions. How wide is the "
            "rectangle of sources of one batch, and how wide that of its targets?",
            "Add `len(batch) * (max(sources) + max(targets))` over all batches; divide the tokens "
            "by the sum, and take that from 1.",
        ),
        extras={
            "empty batch": (
                refusals(
                    "batches that have no fraction",
                    NO_FRACTIONS,
                    "At least one batch, and a pair in each of them, or a ValueError.",
                ),
            ),
        },
    ),
    Exercise(
        "batch_by_tokens",
        "batching",
        20,
        core={
            "batches": (
                calls(
                    "24 pairs",
                    {"24 pairs": (MANY, 60)},
                    faults,
                    kind="property",
                    says="Each pair in one batch, sorted by the longer side, then by the shorter "
                    "one; no batch above B · (S + T) = `tokens`, and none ended too early.",
                ),
                calls(
                    "pairs of several lengths",
                    CUTS,
                    by_lengths,
                    says="The shortest first; where B · (S + T) would be more than `tokens`, a "
                    "batch ends.",
                ),
            ),
        },
        hints=(
            "`sorted(range(len(lengths)), key=…)` puts indices in order, not lengths. What is the "
            "key, if the longer side counts first and then the shorter one?",
            "Keep the batch you are filling, and its longest source and target. What would both "
            "be with the next pair, and how many positions would that make?",
            "If `(len(batch) + 1) * (S + T)` is more than `tokens`, put the batch aside and begin "
            "a new one with this pair, as wide as this pair. The last batch is put aside as well.",
        ),
        extras={
            "no pairs": (calls("no pairs", {"no pairs": ([], 20)}, by_lengths),),
            "pair too long": (
                refusals(
                    "pairs that fit in no batch",
                    {
                        "a source and a target too long together": ([(2, 3), (12, 11)], 20),
                        "a long pair in front": ([(2, 40), (3, 3), (1, 2)], 30),
                    },
                    "A pair of more than `tokens` tokens is a ValueError.",
                ),
            ),
        },
    ),
    Exercise(
        "average_weights",
        "batching",
        12,
        core={
            "mean": (
                calls(
                    "checkpoints",
                    {
                        "three checkpoints": ([A, B, C],),
                        "five checkpoints": ([A, B, C, D, E],),
                        "one checkpoint": ([A],),
                    },
                    weights,
                    says="Under each name the sum over all checkpoints, divided by their number.",
                ),
            ),
            "names": (
                calls(
                    "names in another order",
                    {"two checkpoints": ([A, dict(reversed(B.items()))],)},
                    weights,
                    says="The tensors are matched by name.",
                ),
            ),
        },
        hints=(
            "A `state_dict` is a dict of tensors. First look at one name only: `torch.stack` puts "
            "the tensors of all checkpoints on top of each other.",
            "`.mean(dim=0)` of the stack is the average; `.double()` before it and "
            "`.to(value.dtype)` behind it take care of half precision and whole numbers.",
            "Compare `{name: value.shape …}` of every state with that of the first before you "
            "add, and raise a ValueError where they differ.",
        ),
        extras={
            "dtypes": (
                calls(
                    "numbers of several dtypes",
                    {
                        "whole numbers": each("steps", 3, 5, 8, 8, dtype=torch.long),
                        "True and False": each(
                            "mask", [True, False], [True, True], dtype=torch.bool
                        ),
                        "float16": each("w", [2**11, 3], [1, 3], [1, 5], dtype=torch.float16),
                    },
                    weights,
                    says="Every number is averaged in float64, whole ones as well; then comes the "
                    "dtype of the first.",
                ),
            ),
            "precision": (
                calls(
                    "sums that need float64",
                    {"2²⁵ and 1": each("w", [2**25, 3], [1, 3], [1, 5], [-(2**25), 5])},
                    weights,
                    says="Numbers are added and divided in float64.",
                ),
            ),
            "other models": (
                refusals(
                    "what has no average",
                    MISFITS,
                    "At least one, and the same names and shapes in all, or a ValueError.",
                ),
            ),
        },
    ),
)
