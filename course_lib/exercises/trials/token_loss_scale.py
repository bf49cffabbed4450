"""What is asked of token_loss_scale: that the mean over processes is the mean over tokens."""

import math
from collections.abc import Callable
from typing import Any

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import refuses, value_trial
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trials.schedules import number

WEIGHTS = {  # tokens here, in all, processes; the weight
    "6 of 8 tokens, 2 processes": ((6, 8, 2), 6 / 4),
    "2 of 8 tokens, 2 processes": ((2, 8, 2), 2 / 4),
    "5 of 21 tokens, 3 processes": ((5, 21, 3), 5 / 7),
    "3 of 7 tokens, 4 processes": ((3, 7, 4), 12 / 7),
    "1 of 4 tokens, 8 processes": ((1, 4, 8), 2.0),
    "all of 5 tokens, 4 processes": ((5, 5, 4), 4.0),
    "all tokens, one process": ((9, 9, 1), 1.0),
    "3,124 of 25,000 tokens, 8 processes": ((3_124, 25_000, 8), 3_124 / 3_125),
}
NO_SHARES = {
    "no process": (2, 4, 0),
    "-2 processes": (2, 4, -2),
    "no token in all": (0, 0, 2),
    "-8 tokens in all": (-8, -8, 2),
    "more tokens here than in all": (5, 4, 2),
    "-1 tokens here": (-1, 4, 2),
}
SHARES = {  # tokens of each process, and its mean loss
    "three shares": ((6, 1, 5), (2.0, 5.0, 3.0)),
    "a share without tokens": ((4, 0, 8, 4), (2.5, 0.0, 4.0, 3.0)),
}


def kind(candidate: Callable) -> dict[str, str]:
    """Name what comes out."""
    answer = candidate(6, 8, 2)
    try:
        number(answer)
    except TypeError:
        return {"what comes out": describe(answer)}
    return {"what comes out": "a number"}


def equal(candidate: Callable) -> dict[str, float]:
    """Share tokens out evenly."""
    sizes = (4, 8, 2), (5, 15, 3), (7, 7, 1)
    return {f"the weight of {a} of {b} tokens": number(candidate(a, b, n)) for a, b, n in sizes}


def means(candidate: Callable) -> dict[str, float]:
    """Take the mean over processes of weighted losses."""
    found = {}
    for name, (tokens, losses) in SHARES.items():
        weights = [number(candidate(n, sum(tokens), len(tokens))) for n in tokens]
        pairs = zip(weights, losses, strict=True)
        found[f"the mean, {name}"] = sum(w * loss for w, loss in pairs) / len(tokens)
    return found


def token_means() -> dict[str, float]:
    """Take the mean over all tokens."""
    return {
        f"the mean, {name}": sum(n * x for n, x in zip(tokens, losses, strict=True)) / sum(tokens)
        for name, (tokens, losses) in SHARES.items()
    }


def ratio(candidate: Callable) -> dict[str, float]:
    """Compare a share with one of a third of the tokens."""
    one, other = (number(candidate(n, 12, 3)) for n in (6, 2))
    return {"6 tokens weigh times as much as 2": one / other if other else math.inf}


def told(candidate: Callable) -> dict[str, Any]:
    """Weigh all shares."""
    return {f"the weight of {name}": number(candidate(*given)) for name, (given, _) in
            WEIGHTS.items()}  # fmt: skip


EXERCISES = (
    Exercise(
        "token_loss_scale",
        "data_parallel",
        8,
        (
            value_trial(
                "6 of 8 tokens, 2 processes",
                kind,
                {"what comes out": "a number"},
                stage="shape",
                says="One number, the weight.",
            ),
            value_trial(
                "shares of one size",
                equal,
                {f"the weight of {a} of {b} tokens": 1.0 for a, b in ((4, 8), (5, 15), (7, 7))},
                says="Where all shares have as many tokens, the weight is 1: the plain mean is "
                "right.",
            ),
            value_trial(
                "a share three times as long",
                ratio,
                {"6 tokens weigh times as much as 2": 3.0},
                says="A share weighs as many times more as it has more tokens.",
            ),
            value_trial(
                "a share without tokens",
                lambda candidate: {"its weight": number(candidate(0, 12, 3))},
                {"its weight": 0.0},
                says="A share without tokens is allowed, and weighs nothing.",
            ),
            value_trial(
                "losses of several processes",
                means,
                token_means(),
                says="The mean over processes of weight times loss has to be the mean over all "
                "tokens.",
            ),
            value_trial(
                "several sizes",
                told,
                {f"the weight of {name}": weight for name, (_, weight) in WEIGHTS.items()},
                stage="equality",
                says="The tokens here, compared with what a process has on average.",
            ),
            value_trial(
                "what is no share",
                lambda candidate: {
                    name: refuses(candidate, *given) for name, given in NO_SHARES.items()
                },
                dict.fromkeys(NO_SHARES, "a ValueError"),
                says="At least one process and one token, and no more tokens here than in all, or "
                "a ValueError.",
            ),
        ),
        (
            "The mean over all tokens is the sum of each share's mean times its tokens, divided "
            "by all tokens. What is left of that once the processes divide by their number?",
            "A process of n tokens counts for n / all in the mean over tokens, and for "
            "1 / world_size in that over processes. The weight turns one into the other.",
            "`world_size * num_tokens / all_tokens`; the guard lets `num_tokens` be 0.",
        ),
    ),
)
