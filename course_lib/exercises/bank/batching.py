"""Exercises of chapter 17: trials, known mistakes and right answers."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import index
from typing import Any

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import known
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
        unnamed=("sum(grown) > tokens", "sum(grown) > 0.8 * tokens"),
    ),
)


# known mistakes

cut = known("batching", "batch_by_tokens")


ORDER = "sorted(range(len(lengths)), key=lambda i: sorted(lengths[i], reverse=True))"
KEY = "sorted(lengths[i], reverse=True)"
POSITIONS = "(len(batch) + 1) * sum(grown)"
FIRST_OF_A_BATCH = "batch = []\n            grown = lengths[pair]"
END = "return [*batches, batch] if batch else batches"


MISTAKES = (
    cut(
        "padding_not_counted",
        "tokens are counted without padding: a batch costs B · (S + T) positions",
        (POSITIONS, "sum(sum(lengths[i]) for i in [*batch, pair])"),
        seen="OpenNMT/CTranslate2 #939, meta-pytorch/data #788",
    ),
    cut(
        "last_batch_lost",
        "the last batch is lost: it is still being filled when the pairs end",
        (END, "return batches"),
        seen="a review in huggingface/trl #6092",
    ),
    cut(
        "one_pair_too_many",
        "the bound is checked before the new pair is counted: a batch may be one pair too large",
        (POSITIONS, "len(batch) * sum(grown)"),
        seen="NVIDIA-NeMo/Speech #5907",
    ),
    cut(
        "widths_before_the_pair",
        "the widths from before the new pair are used, and it may be longer than all others",
        (POSITIONS, "(len(batch) + 1) * sum(widest)"),
        seen="lhotse-speech/lhotse #1590",
    ),
    cut(
        "first_pair_forgotten",
        "a new batch begins with widths of 0, though it holds the pair that did not fit before",
        (FIRST_OF_A_BATCH, "batch, grown = [], (0, 0)"),
        seen="spring-projects/spring-ai #5528",
    ),
    cut(
        "widths_not_reset",
        "a new batch keeps the widths of the one before",
        (FIRST_OF_A_BATCH, "batch = []"),
    ),
    cut(
        "not_sorted",
        "the pairs are taken in the order in which they come: long and short share a batch",
        (ORDER, "range(len(lengths))"),
        seen="inclusionAI/AReno #204",
    ),
    cut(
        "sorted_by_source",
        "the pairs are sorted by the source, and the targets of a batch are of all lengths",
        (KEY, "lengths[i]"),
        seen="OpenNMT/OpenNMT-py #590, facebookresearch/fairseq #3012",
    ),
    cut(
        "sorted_by_the_sum",
        "the pairs are sorted by S + T: (2, 9) stands beside (9, 2), and both are padded",
        (KEY, "sum(lengths[i])"),
        seen="Helsinki-NLP/mammoth #12",
    ),
    cut(
        "pairs_counted",
        "`tokens` is taken for a number of pairs",
        (POSITIONS, "len(batch) + 1"),
        seen="facebookresearch/fairseq #37 asks which of the two it is",
    ),
    cut(
        "longer_side_only",
        "the longer side is counted, not both: B · max(S, T)",
        (POSITIONS, "(len(batch) + 1) * max(grown)"),
    ),
)


# right answers


def cut_by_loop(lengths, tokens):
    """Fill a batch, and look at every row of it again each time."""
    batches = []
    for place in sorted(
        range(len(lengths)), key=lambda place: (max(lengths[place]), min(lengths[place]))
    ):
        wider = [*batches[-1], place] if batches else []
        sources = [lengths[i][0] for i in wider]
        targets = [lengths[i][1] for i in wider]
        if wider and len(wider) * (max(sources) + max(targets)) <= tokens:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def cut_by_searching(lengths, tokens):
    """Look up how many of the rest fit; of equal pairs the last comes first."""
    order = sorted(reversed(range(len(lengths))), key=lambda i: sorted(lengths[i])[::-1])

    def places(start, stop):
        """Count the positions of a part."""
        rows = [lengths[i] for i in order[start:stop]]
        return (stop - start) * sum(map(max, zip(*rows, strict=True)))

    cuts = [0]
    while cuts[-1] < len(order):
        start = cuts[-1]
        stops = range(start + 1, len(order) + 1)
        cuts.append(start + bisect_right(stops, tokens, key=lambda stop: places(start, stop)))
    return [order[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]


ANSWERS = {"batch_by_tokens": (cut_by_loop, cut_by_searching)}
