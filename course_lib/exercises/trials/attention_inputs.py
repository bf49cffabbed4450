"""What is asked of chapter 01's gatekeeper: what fits passes, the rest is refused in words."""

from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import D_K, D_V, B, H, S, T, normal, refuses, value_trial

SHAPES = {"query": (B, H, T, D_K), "key": (B, H, S, D_K), "value": (B, H, S, D_V)}
MASKS = ((T, S), (B, 1, 1, S), (B, H, T, S), (S,))


def guard_verdicts(candidate: Callable) -> dict[str, Any]:
    """Call the guard with inputs that do not fit; every message must hold the numbers."""
    q, k, v = (torch.zeros(B, T, D_K), torch.zeros(B, S, D_K), torch.zeros(B, S, D_V))
    wide, many, three = torch.zeros(B, S, 8), torch.zeros(B, 9, D_V), torch.zeros(3, S, D_K)
    mask, text = torch.ones(T, 9, dtype=torch.bool), torch.ones(T, S)
    large = torch.ones(3, B, T, S, dtype=torch.bool)
    return {
        "a key of another width": refuses(candidate, q, wide, v, words=[D_K, 8]),
        "more values than keys": refuses(candidate, q, k, many, words=[S, 9]),
        "another batch": refuses(candidate, q, three, v, words=["(3, 5, 6)"]),
        "a single vector": refuses(candidate, torch.zeros(D_K), k, v, words=["(6,)"]),
        "a mask of floats": refuses(candidate, q, k, v, text, words=["float32"]),
        "a mask that does not fit": refuses(candidate, q, k, v, mask, words=["(4, 9)"]),
        "a mask that makes it larger": refuses(candidate, q, k, v, large, words=["(3, 2, 4, 5)"]),
    }


def guard_accepts(candidate: Callable) -> dict[str, Any]:
    """Call the guard with inputs that fit; it returns nothing."""
    given = {name: normal(name, *shape) for name, shape in SHAPES.items()}
    masks = [None, *(torch.ones(*shape, dtype=torch.bool) for shape in MASKS)]
    spread = [torch.zeros(*lead, T, D_K) for lead in ((B, 1), (1, H), ())]
    return {"returned": [candidate(*given.values(), m) for m in masks] + [candidate(*spread)]}


EXERCISES = (
    Exercise(
        "check_attention_inputs",
        "attention",
        10,
        (
            value_trial(
                "inputs that fit",
                guard_accepts,
                {"returned": [None] * 6},
                says="What fits must pass in silence.",
            ),
            value_trial(
                "inputs that do not fit",
                guard_verdicts,
                dict.fromkeys(
                    (
                        "a key of another width",
                        "more values than keys",
                        "another batch",
                        "a single vector",
                        "a mask of floats",
                        "a mask that does not fit",
                        "a mask that makes it larger",
                    ),
                    "a ValueError",
                ),
                says="What does not fit needs a ValueError whose words hold the numbers.",
            ),
        ),
        (
            "Compare `shape[-1]` of query and key, and `shape[-2]` of key and value; put the "
            "shapes into the message.",
            "`torch.broadcast_shapes` raises a RuntimeError for batch sizes that do not fit; a "
            "mask broadcasts when, read from the right, each of its sizes is 1 or the right one.",
        ),
    ),
)
