"""What is asked of chapter 14's links: where they come from, and how wrong they are."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import S, T, Trial, normal, refuses, value_trial
from course_lib.exercises.outcomes import Outcome, describe

Links = set[tuple[int, int]]


def listed(links: Any) -> dict[str, Any]:
    """Write links down in order; say what they are if they are no set of pairs of numbers."""
    pairs = [*links] if isinstance(links, set | frozenset | list | tuple) else [links]
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        return {"returned": describe(links)}
    whole = all(type(place) is int for pair in pairs for place in pair)
    return {
        "a set that can be compared": isinstance(links, set | frozenset) and whole,
        "links": str(sorted((int(t), int(s)) for t, s in pairs)),
    }  # fmt: skip


def linked_by_hand(weights: Tensor, threshold: float) -> Links:
    """Look at one weight after another."""
    return {
        (t, s)
        for t, row in enumerate(weights.tolist())
        for s, weight in enumerate(row)
        if weight >= threshold
    }


def linked(label: str, weights: Tensor, threshold: float) -> Trial:
    """Compare the links of a map with those found by hand."""

    def act(candidate: Callable) -> Outcome:
        """Call it on a copy."""
        given = weights.clone()
        shown = listed(candidate(given, threshold))
        return Outcome(shown, {}, () if given.equal(weights) else ("weights",))

    return Trial(label, act, lambda: act(linked_by_hand), says=LINK)


LINK = "A pair (target, source) of places, from 0, for each weight that reaches the threshold."
MAP = normal("a map", T, S).mul(2).softmax(dim=-1)
HALVES = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
NO_MAPS = {
    "weights (H, T, S)": (torch.ones(3, 4, 5), 0.5),
    "weights (S,)": (torch.ones(5), 0.5),
    "threshold 0": (MAP, 0.0),
    "a threshold below 0": (MAP, -0.5),
    "a threshold above 1": (MAP, 1.5),
}


def maps_refused(candidate: Callable) -> dict[str, Any]:
    """Hand over what is no map, and thresholds that mean nothing."""
    return {
        name: refuses(candidate, weights, threshold, words=(tuple(weights.shape), threshold))
        for name, (weights, threshold) in NO_MAPS.items()
    }


DIAGONAL = {(0, 0), (1, 1), (2, 2)}
ALL = {(t, s) for t in range(3) for s in range(3)}
TRIALS = {  # found, known, the rate
    "the same links": ([DIAGONAL, {(0, 1)}], [DIAGONAL, {(0, 1)}], 0.0),
    "nothing shared": ([{(0, 1)}, {(1, 0)}], [{(1, 1)}, {(0, 1)}], 1.0),
    "links too many": ([ALL], [DIAGONAL], 1 - 6 / 12),
    "links too few": ([{(0, 0)}], [DIAGONAL], 1 - 2 / 4),
    "a short and a long sentence": ([{(0, 0)}, {(0, 0)}], [{(0, 0)}, DIAGONAL], 1 - 4 / 6),
    "a link of the other sentence": ([{(0, 0)}, {(1, 1)}], [{(1, 1)}, {(0, 0)}], 1.0),
    "a sentence where none was found": ([set(), DIAGONAL], [{(0, 1)}, DIAGONAL], 1 - 6 / 7),
    "a sentence where none is known": ([{(0, 1)}, DIAGONAL], [set(), DIAGONAL], 1 - 6 / 7),
    "places exchanged": ([{(0, 1), (2, 2)}], [{(1, 0), (2, 2)}], 1 - 2 / 4),
}


def rates(candidate: Callable) -> dict[str, Any]:
    """Compute the rate of every trial."""
    shown = {}
    for name, (found, known, _) in TRIALS.items():
        rate = candidate([set(links) for links in found], [set(links) for links in known])
        shown[f"the rate of {name}"] = rate + 0.0 if isinstance(rate, int | float) else rate
    return shown


NO_RATES = {
    "one sentence against two": ([DIAGONAL], [DIAGONAL, ALL]),
    "two sentences against one": ([DIAGONAL, ALL], [DIAGONAL]),
    "no sentences": ([], []),
    "no links at all": ([set()], [set()]),
}


def rates_refused(candidate: Callable) -> dict[str, Any]:
    """Hand over lists that have no rate."""
    return {name: refuses(candidate, *given) for name, given in NO_RATES.items()}


EXERCISES = (
    Exercise(
        "alignment_from_attention",
        "evaluation",
        8,
        (
            linked("a map (T, S)", MAP, 0.2),
            linked("weights that are equal to the threshold", HALVES, 0.5),
            linked("threshold 1", HALVES, 1.0),
            linked("a small threshold", MAP, 0.02),
            linked("a map that reaches the threshold nowhere", MAP, 0.999),
            value_trial(
                "what has no links",
                maps_refused,
                dict.fromkeys(NO_MAPS, "a ValueError"),
                says="A table (T, S) and a threshold in (0, 1], or a ValueError that names both.",
            ),
        ),
        (
            "Comparing the table with the threshold gives a table of True and False. Does equal "
            "count?",
            "`nonzero()` lists the places of the True ones as rows (t, s); `.tolist()` makes "
            "numbers of them, which can be put into a set.",
        ),
    ),
    Exercise(
        "alignment_error_rate",
        "evaluation",
        10,
        (
            value_trial(
                "sets of links",
                rates,
                {f"the rate of {name}": rate for name, (*_, rate) in TRIALS.items()},
                stage="equality",
                says="1 - 2 · shared / (found + known), each counted over all sentences.",
            ),
            value_trial(
                "lists that have no rate",
                rates_refused,
                dict.fromkeys(NO_RATES, "a ValueError"),
                says="As many sentences on both sides and a link somewhere, or a ValueError.",
            ),
        ),
        (
            "Three counts are all you need: the links found, the links known, and those in both. "
            "`found & known` of two sets holds what is in both.",
            "Add the counts of all sentences before you divide: "
            "`1 - 2 * shared / (found + known)`.",
        ),
    ),
)
