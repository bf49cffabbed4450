"""What is asked of chapter 19's attention that turns: sums over turned queries and keys."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trial import (
    B,
    T,
    Trial,
    by_name,
    filled,
    module_trial,
    normal,
    parameters_trial,
    value_trial,
)
from course_lib.exercises.trials import causal_attention as plain
from course_lib.exercises.trials.causal_attention import FUTURE, PLAIN, X, leaks, steady
from course_lib.exercises.trials.decoder_layer import by_place
from course_lib.exercises.trials.gpt_formulas import D_MODEL
from course_lib.exercises.trials.layer_formulas import TORCHS
from course_lib.exercises.trials.rope import LENGTH, turned
from course_lib.modern_decoder import RotaryAttention

LEAKS = ("a later token is heard while training", "a later token is heard afterwards")
DROPS = dict(
    stage="train and eval", says="Dropout acts on the attention weights, in training only."
)
PARTS = ("queries", "keys", "values")


def heads_of(p: dict[str, Tensor], heads: int, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Take rows of the matrix, three times as many blocks as heads; turn the first two thirds."""
    every = x @ p["w_qkv.weight"].T + p["w_qkv.bias"]
    q, k, v = every.unflatten(-1, (3 * heads, -1)).transpose(1, 2).split(heads, dim=1)
    return turned(q), turned(k), v


def attend_cached(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Look back by sums; heads come out abreast."""
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / q.size(-1) ** 0.5
    later = torch.ones(scores.shape[-2:]).triu(1).bool()
    weights = torch.exp(scores).masked_fill(later, 0.0)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return torch.einsum("bhts,bhsd->bthd", weights, v).flatten(2)


def tried(label: str, build: dict, x: Tensor, **more: Any) -> Trial:
    """Compare output and gradients with the sums."""

    def reference(p: dict[str, Tensor], x: Tensor) -> Tensor:
        """Project, look back, mix."""
        joined = attend_cached(*heads_of(p, build["num_heads"], x))
        return joined @ p["w_o.weight"].T + p["w_o.bias"]

    case = module_trial(label, RotaryAttention, build, {"x": x}, reference, **more)
    return by_place(case, *build)


def parts(candidate: Callable) -> dict[str, Any]:
    """Look at queries, keys and values."""
    with torch.no_grad():
        found = filled(candidate(*PLAIN.values())).eval().project(X.clone())
    return dict(zip(PARTS, found, strict=False)) if len(found) == 3 else {"parts": len(found)}


def parts_wanted() -> dict[str, Tensor]:
    """Compute them from the same numbers."""
    with torch.no_grad():
        found = heads_of(by_name(filled(RotaryAttention(**PLAIN))), PLAIN["num_heads"], X)
    return dict(zip(PARTS, found, strict=True))


def one_token(candidate: Callable) -> dict[str, bool]:
    """Put one token everywhere, and look what its places change."""
    layer = filled(candidate(*PLAIN.values())).eval()
    with torch.no_grad():
        q, k, v = layer.project(normal("a token", D_MODEL).expand(1, LENGTH, D_MODEL).clone())
    scores = (q @ k.mT)[0]  # (H, LENGTH, LENGTH)
    lines = [scores.diagonal(d, -2, -1) for d in range(1 - LENGTH, LENGTH)]
    return {
        "values are the same everywhere": torch.allclose(v, v[..., :1, :].expand_as(v), atol=1e-4),
        "scores are the same at the same distance": all(
            (line - line[:, :1]).abs().max() < 1e-3 for line in lines
        ),
        "scores are other at another distance": bool((scores[:, -1].diff().abs() > 1e-3).all()),
    }


def learned(candidate: Callable) -> Outcome:
    """List what it registers, once it has projected something; the constructor is inherited."""
    candidate(**PLAIN).project(X.clone())
    return CENSUS.act(candidate)


CENSUS = parameters_trial(
    RotaryAttention,
    PLAIN,
    "The parameters are those of CausalSelfAttention, w_qkv and w_o: a rotation learns nothing.",
)
LEARNED = replace(CENSUS, act=learned)

EXERCISES = (
    Exercise(
        "RotaryAttention",
        "modern_decoder",
        10,
        (
            LEARNED,
            tried("sizes that all differ", PLAIN, X),
            tried("sizes that are all equal", dict(d_model=16, num_heads=4), normal("e", 4, 4, 16)),
            tried("one token", PLAIN, X[:, :1]),
            tried("one head", dict(d_model=6, num_heads=1), normal("one head", B, T, 6)),
            value_trial(
                "one token at every place",
                one_token,
                {
                    "values are the same everywhere": True,
                    "scores are the same at the same distance": True,
                    "scores are other at another distance": True,
                },
                says="Queries and keys are turned, each by its own place, and values are not: then "
                "a score knows the distance and no more.",
            ),
            Trial(
                "queries, keys and values",
                lambda candidate: Outcome(parts(candidate)),
                lambda: Outcome(parts_wanted()),
                says="`project` gives queries and keys after `apply_rope`, (B, H, T, d_k), "
                "and values as they were.",
            ),
            value_trial("a later token", leaks, dict.fromkeys(LEAKS, False), says=FUTURE),
            value_trial(
                "dropout=0.5 in eval mode", steady, {"both answers are the same": True}, **DROPS
            ),
            value_trial(
                "dropout in training",
                plain.dropped,
                {
                    "output of weights that are all dropped": torch.zeros(B, T, D_MODEL),
                    "what comes out is 0 or doubled": "[0.0, 2.0]",
                },
                **DROPS,
            ),
        ),
        (
            "Everything else stays as it was in chapter 18: which of its methods sees queries and "
            "keys before the scores?",
            "`super().project(x)` gives q, k and v in heads, (B, H, T, d_k); places run along the "
            "axis that `apply_rope` wants.",
            "`return apply_rope(q), apply_rope(k), v`",
        ),
        TORCHS,
    ),
)
