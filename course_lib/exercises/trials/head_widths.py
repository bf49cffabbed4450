"""What is asked of chapter 02's two guards: widths are shared out, or refused in words."""

from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import D_K, D_V, B, H, S, T, refuses, value_trial
from course_lib.multi_head import MultiHeadAttention

D_MODEL, KDIM, VDIM = H * D_K, 8, 9
REFUSED = "a ValueError"


def widths(candidate: Callable[..., int]) -> dict[str, Any]:
    """Ask for widths that exist, and for some that do not."""
    return {
        "512 among 8": candidate(512, 8),
        "18 among 3": candidate(18, 3),
        "10 among 3, width 7 given": candidate(10, 3, 7),
        "10 among 3": refuses(candidate, 10, 3, words=[10, 3]),
        "0 heads": refuses(candidate, 8, 0, words=[0]),
        "width 0 given": refuses(candidate, 8, 2, 0, words=[0]),
        "width -8": refuses(candidate, -8, 2, words=[-8]),
    }


def guard(candidate: Callable[..., None]) -> dict[str, Any]:
    """Hand the guard inputs of the right and of the wrong widths."""
    layer = MultiHeadAttention(D_MODEL, H, d_v=D_V, kdim=KDIM, vdim=VDIM)
    good = [torch.zeros(B, length, width) for length, width in ((T, D_MODEL), (S, KDIM), (S, VDIM))]
    seen = {"what fits": candidate(layer, *good)}
    for place, name in enumerate(("query", "key", "value")):
        bad = list(good)
        bad[place] = torch.zeros(B, S, 11)
        right = (D_MODEL, KDIM, VDIM)[place]
        seen[f"a {name} of width 11"] = refuses(candidate, layer, *bad, words=[name, 11, right])
    seen["a single vector"] = refuses(candidate, layer, torch.zeros(D_MODEL), *good[1:])
    return seen


EXERCISES = (
    Exercise(
        "head_width",
        "multi_head",
        5,
        (
            value_trial(
                "widths that exist and some that do not",
                widths,
                {
                    "512 among 8": 64,
                    "18 among 3": 6,
                    "10 among 3, width 7 given": 7,
                }
                | dict.fromkeys(("10 among 3", "0 heads", "width 0 given", "width -8"), REFUSED),
                says="Share d_model out, or take the width given; refuse the rest in words.",
            ),
        ),
        (
            "A remainder (`%`) tells whether it divides; a width that is given decides alone.",
            "Test for sizes below 1 first, then for a remainder; name the numbers in the message.",
        ),
    ),
    Exercise(
        "check_widths",
        "multi_head",
        5,
        (
            value_trial(
                "inputs that fit and some that do not",
                guard,
                {"what fits": None}
                | dict.fromkeys((f"a {n} of width 11" for n in ("query", "key", "value")), REFUSED)
                | {"a single vector": REFUSED},
                says="Name the input, its shape, and the width that its projection was built for.",
            ),
        ),
        (
            "`attention.w_q.in_features` is the width that the queries' projection was built for.",
            "Walk over the three names and tensors; compare `x.size(-1)`; refuse `x.dim() < 2`.",
        ),
    ),
)
