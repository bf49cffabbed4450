"""Exercises for chapter 17: trials, known mistakes and correct answers."""

from collections.abc import Sequence
from operator import index
from typing import Any

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.outcomes import describe
from course_lib.exercises.checking.scalar_trials import calls

MANY = [  # no two pairs have the same longer and shorter side
    (5, 9), (2, 2), (7, 3), (4, 6), (9, 1), (1, 1), (6, 6), (8, 5), (3, 2), (4, 4), (7, 10), (1, 5),
    (6, 5), (2, 8), (9, 9), (3, 6), (2, 5), (8, 8), (1, 7), (10, 3), (4, 1), (7, 7), (9, 4), (5, 5),
]  # fmt: skip
CUTS = {
    "three pairs": ([(2, 2), (9, 9), (2, 1)], 20),
    "longer sources and longer targets": ([(6, 2), (2, 5), (1, 1), (3, 4)], 24),
    "short sources": ([(1, 6), (2, 7), (1, 8)], 16),
    "a long pair that starts a batch": ([(1, 5), (5, 5), (6, 1)], 19),
    "short pairs after a long one": ([(9, 2), (2, 10), (2, 11)], 30),
    "a pair that fits into an earlier batch": ([(9, 2), (2, 10), (11, 3)], 30),
    "a pair that fills a batch": ([(7, 5), (2, 1), (3, 1)], 12),
    "pairs of equal lengths": ([(3, 5), (4, 2), (3, 5), (4, 4), (4, 2), (3, 5)], 30),
    "24 pairs": (MANY, 60),
}
RULE = (
    "Sort the pairs by the longer side, and then by the shorter one. Start a new batch if "
    "B · (S + T) would exceed `tokens`."
)


def by_lengths(answer: Any, lengths: Sequence[tuple[int, int]], tokens: int) -> dict[str, Any]:
    """Return the lengths in each batch, because pairs of equal lengths may be in any order."""
    parts = answer if isinstance(answer, list | tuple) else [answer]
    if parts is not answer or not all(isinstance(batch, list | tuple) for batch in parts):
        raise TypeError(f"return lists of indices instead of {describe(answer)}")
    batches = [[*map(index, batch)] for batch in parts]
    pairs = {i: str(pair) for i, pair in enumerate(lengths)}
    return {
        "indices": str(sorted(sum(batches, []))),
        "batches": str([" ".join(pairs.get(i, "none") for i in batch) for batch in batches]),
    }


EXERCISES = (
    Exercise(
        "batch_by_tokens",
        20,
        core={"batches": (calls("pairs of several lengths", CUTS, by_lengths, says=RULE),)},
        formula="Without pairs, there are no batches.",
        hints=(
            "`sorted(range(len(lengths)), key=…)` sorts indices instead of lengths. Which key "
            "compares the longer sides first, and then the shorter ones?",
            "Keep track of the batch that you are filling, and of its longest source and target. "
            "How long will they be with the next pair, and how many positions will the batch have?",
            "If `(len(batch) + 1) * (S + T)` is more than `tokens`, store the batch and start a "
            "new one that contains only this pair. Store the last batch, too.",
        ),
        extras={"no pairs": (calls("no pairs", {"no pairs": ([], 20)}, by_lengths),)},
        rejects=("([(3, 4)], 6)", "([(1, 1), (5, 2), (2, 2)], 6)"),
    ),
)


# known mistakes


ORDER = "sorted(range(len(lengths)), key=lambda i: sorted(lengths[i], reverse=True))"
KEY = "sorted(lengths[i], reverse=True)"
POSITIONS = "(len(batch) + 1) * sum(grown)"
FIRST_OF_A_BATCH = "batch = []\n            grown = lengths[pair]"
END = "return [*batches, batch] if batch else batches"

MISTAKES = {
    "batch_by_tokens": {
        "padding_not_counted: tokens are counted without padding, but a padded batch has B · (S + "
        "T) positions [OpenNMT/CTranslate2 #939, "
        "meta-pytorch/data #788]": (POSITIONS, "sum(sum(lengths[i]) for i in [*batch, pair])"),
        "last_batch_lost: the last batch is never stored": (END, "return batches"),
        "one_pair_too_many: the limit is checked before adding the new pair, so a batch may be one "
        "pair too large [NVIDIA-NeMo/Speech #5907]": (POSITIONS, "len(batch) * sum(grown)"),
        "widths_before_the_pair: the longest source and target are found before the new pair is "
        "added, but that pair "
        "may be longer [lhotse-speech/lhotse #1590]": (POSITIONS, "(len(batch) + 1) * sum(widest)"),
        "newest_pair_only: the newest pair's lengths are used instead of the longest source and "
        "the longest target in the batch": (POSITIONS, "(len(batch) + 1) * sum(lengths[pair])"),
        "first_pair_forgotten: a new batch starts with lengths of 0, even though it contains the "
        "pair that did not "
        "fit [spring-projects/spring-ai #5528]": (FIRST_OF_A_BATCH, "batch, grown = [], (0, 0)"),
        "widths_not_reset: a new batch keeps the longest source and target of the previous batch": (
            FIRST_OF_A_BATCH,
            "batch = []",
        ),
        "not_sorted: the pairs are not sorted, so long and short pairs end up in the same batch "
        "[inclusionAI/AReno #204]": (ORDER, "range(len(lengths))"),
        "sorted_by_source: the pairs are sorted by the source's length, so the targets in a batch "
        "have very different "
        "lengths [OpenNMT/OpenNMT-py #590, facebookresearch/fairseq #3012]": (KEY, "lengths[i]"),
        "sorted_by_the_sum: the pairs are sorted by S + T, so (2, 9) and (9, 2) are neighbors and "
        "both get padding [Helsinki-NLP/mammoth #12]": (KEY, "sum(lengths[i])"),
        "pairs_counted: `tokens` limits the number of pairs instead of the number of positions": (
            POSITIONS,
            "len(batch) + 1",
        ),
        "longer_side_only: only the longer side is counted: B · max(S, T) instead of B · (S + T)": (
            POSITIONS,
            "(len(batch) + 1) * max(grown)",
        ),
        "one_pair_for_both: one pair gives both widths, but the longest source and the longest "
        "target may be in different "
        "pairs": ("tuple(map(max, widest, lengths[pair]))", "max(widest, lengths[pair], key=sum)"),
        "full_batch_refused: a batch with exactly `tokens` positions is not allowed": (
            "sum(grown) > tokens",
            "sum(grown) >= tokens",
        ),
    },
}


# right answers

SEARCHED = """from bisect import bisect_right
    order = sorted(reversed(range(len(lengths))), key=lambda i: sorted(lengths[i])[::-1])

    def positions(start, stop):
        rows = [lengths[i] for i in order[start:stop]]
        return (stop - start) * sum(map(max, zip(*rows, strict=True)))

    if any(sum(pair) > tokens for pair in lengths):
        raise ValueError("no batch has room for this pair")
    cuts = [0]
    while cuts[-1] < len(order):
        start = cuts[-1]
        stops = range(start + 1, len(order) + 1)
        cuts.append(start + bisect_right(stops, tokens, key=lambda stop: positions(start, stop)))
    return [order[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
    batches = []
"""

ANSWERS = {
    "batch_by_tokens": {
        "by_searching: the largest batch that fits is searched, and equal pairs are in reverse "
        "order": ("batches = []\n", SEARCHED),
        "looking_again: the longest sides of a batch are computed again for every new pair": (
            ("sorted(lengths[i], reverse=True)", "(max(lengths[i]), min(lengths[i]))"),
            (
                "tuple(map(max, widest, lengths[pair]))",
                "tuple(map(max, zip(*(lengths[i] for i in [*batch, pair]), strict=True)))",
            ),
        ),
    },
}
