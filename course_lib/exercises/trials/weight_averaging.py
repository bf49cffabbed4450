"""What is asked of chapter 16's average of checkpoints: all names, all kinds of numbers."""

from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import S, T, Trial, normal, refuses, value_trial
from course_lib.exercises.outcomes import Outcome

State = dict[str, Tensor]


def drawn(seed: str) -> State:
    """Make the weights of one checkpoint."""
    return {
        "embedding.weight": normal(f"{seed} embedding", T, S),
        "norm.weight": normal(f"{seed} gain", S) + 1,
        "scale": normal(f"{seed} scale"),
    }


def tied(seed: str) -> State:
    """Let two names share one tensor."""
    table = normal(f"{seed} table", S, T)
    return {"src_embedding.weight": table, "output.weight": table}


def each(name: str, *values: Any, dtype: torch.dtype = torch.float32) -> list[State]:
    """Make a checkpoint of every value, under one name."""
    return [{name: torch.tensor(value, dtype=dtype)} for value in values]


TRIALS = {
    "three checkpoints": [drawn("a"), drawn("b"), drawn("c")],
    "five checkpoints": [drawn(seed) for seed in "defgh"],
    "one checkpoint": [drawn("i")],
    "names in another order": [drawn("j"), dict(reversed(drawn("k").items()))],
    "two names of one tensor": [tied("l"), tied("m")],
}
EXACT = {  # no float32 is 2²⁵ + 1, and no float16 is 2¹¹ + 1
    f"{large:,} and {dtype}": each("w", [large, 3], [1, 3], [1, 5], [-large, 5], dtype=dtype)
    for large, dtype in ((2**25, torch.float32), (2**25, torch.float64), (2**11, torch.float16))
}
WHOLE = {
    "whole numbers": each("steps", 3, 5, 8, 8, dtype=torch.long),
    "a table of whole numbers": each("counts", [1, 40], [3, 80], dtype=torch.int32),
    "True and False": each("mask", [True, False], [True, False], dtype=torch.bool),
}
KINDS = [  # a mean has the dtype of the first
    {
        "half": torch.tensor([value], dtype=torch.float16),
        "double": torch.tensor([value], dtype=torch.float64),
        "first": torch.tensor([value], dtype=dtype),
        "steps": torch.tensor(value, dtype=torch.long),
    }
    for value, dtype in ((1, torch.float32), (3, torch.float64))
]
LONE = each("w", [1.0, 2.0, 3.0])
MISFITS = {
    "no checkpoints": [],
    "a name that the second lacks": [drawn("a"), dict([*drawn("b").items()][:-1])],
    "a name more in the second": [drawn("a"), drawn("b") | {"bias": torch.zeros(S)}],
    "another name": [*LONE, {"v": torch.ones(3)}],
    "another shape": [*LONE, *LONE, {"w": torch.ones(4)}],
    "a shape that would be stretched": [*LONE, {"w": torch.ones(1)}],
    "a shape of one axis more": [*LONE, {"w": torch.ones(1, 3)}],
}


def refused(candidate: Callable) -> dict[str, Any]:
    """Hand over what has no average."""
    return {name: refuses(candidate, deepcopy(states)) for name, states in MISFITS.items()}


def mean_by_hand(tensors: list[Tensor]) -> Tensor:
    """Take the mean of each number as a fraction."""
    rows = zip(*(tensor.flatten().tolist() for tensor in tensors), strict=True)
    means = [float(sum(map(Fraction, row)) / len(tensors)) for row in rows]
    return torch.tensor(means).view(tensors[0].shape).to(tensors[0].dtype)


def named(answer: Any) -> State:
    """Return the answer if it is a ``state_dict``.

    Raises:
        TypeError: If it is none.
    """
    held = [*answer.values()] if isinstance(answer, dict) else [answer]
    if held and isinstance(answer, dict) and all(isinstance(one, Tensor) for one in held):
        return answer
    kinds = ", ".join(sorted({type(one).__name__ for one in held})) or "nothing"
    raise TypeError(f"a dict of tensors should come out, and what came is: {kinds}")


def plain(states: list[State]) -> list[dict]:
    """Write numbers out, to compare them before and after."""
    return [{name: (x.dtype, x.tolist()) for name, x in state.items()} for state in states]


def averaged(label: str, trials: dict[str, list[State]], stage: str, says: str) -> Trial:
    """Compare each mean with one of fractions, and look for changes."""

    def act(candidate: Callable) -> Outcome:
        """Call it on copies."""
        values, changed = {}, ()
        for trial, states in trials.items():
            copies = deepcopy(states)
            answer = named(candidate(copies))
            values |= {f"{name} of {trial}": x.detach().clone() for name, x in answer.items()}
            changed = changed if plain(copies) == plain(states) else ("states",)
        return Outcome(values, {}, changed)

    wanted = {
        f"{name} of {trial}": mean_by_hand([state[name] for state in states])
        for trial, states in trials.items()
        for name in states[0]
    }
    return Trial(label, act, lambda: Outcome(wanted), stage, says)


def kinds(candidate: Callable) -> dict[str, str]:
    """Name what comes out, and the dtypes."""
    answer = named(candidate(deepcopy(KINDS)))
    return {
        "names": ", ".join(sorted(answer)),
        **{f"the dtype of {name}": str(x.dtype) for name, x in answer.items()},
    }


EXERCISES = (
    Exercise(
        "average_weights",
        "batching",
        12,
        (
            value_trial(
                "numbers of several kinds",
                kinds,
                {
                    "names": ", ".join(sorted(KINDS[0])),
                    **{f"the dtype of {name}": str(x.dtype) for name, x in KINDS[0].items()},
                },
                stage="shape",
                says="A dict with all names of the first, and under each name its dtype.",
            ),
            averaged(
                "checkpoints",
                TRIALS,
                "equality",
                "Under each name the sum over all checkpoints, divided by how many there are.",
            ),
            averaged(
                "numbers that need float64",
                EXACT,
                "equality",
                "Numbers are added and divided in float64; the dtype of the first comes last.",
            ),
            averaged(
                "whole numbers",
                WHOLE,
                "equality",
                "Whole numbers are averaged as all others are, in float64.",
            ),
            value_trial(
                "what has no average",
                refused,
                dict.fromkeys(MISFITS, "a ValueError"),
                says="At least one, and the same names and shapes in all, or a ValueError.",
            ),
        ),
        (
            "A `state_dict` is a dict of tensors. First look at one name only: `torch.stack` puts "
            "the tensors of all checkpoints on top of each other.",
            "`.mean(dim=0)` of the stack is the average; `.double()` before it and "
            "`.to(value.dtype)` behind it take care of half precision and whole numbers.",
            "Compare `{name: value.shape …}` of every state with that of the first before you "
            "add, and raise a ValueError where they differ.",
        ),
    ),
)
