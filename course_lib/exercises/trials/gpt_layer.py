"""What is asked of chapter 18's layer: it equals its formulas, and drops where GPT-2 does."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    Trial,
    filled,
    module_trial,
    parameters_trial,
    value_trial,
)
from course_lib.exercises.trials.causal_attention import PLAIN, X, leaks
from course_lib.exercises.trials.decoder_layer import by_place
from course_lib.exercises.trials.gpt_formulas import layer
from course_lib.exercises.trials.layer_formulas import TORCHS
from course_lib.gpt import GPTLayer

PARTS = (
    "A layer has four parts, each with parameters of its own: self_attn, feed_forward (4 · d_model "
    "features), add_norm1 and add_norm2."
)
FUTURE = "A later token must not change what stands before it, while training and afterwards."


def tried(label: str, x: torch.Tensor, **more: Any) -> Trial:
    """Compare output and gradients with the formulas."""
    return by_place(module_trial(label, GPTLayer, PLAIN, {"x": x}, layer, **more), *PLAIN)


def steady(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Ask twice in eval mode."""
    model = filled(candidate(*PLAIN.values(), 0.5)).eval()
    with torch.no_grad():
        return {"both answers are the same": torch.equal(model(X.clone()), model(X.clone()))}


def dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Drop all answers, and look who drops something inside."""
    silent = filled(candidate(*PLAIN.values(), 1.0)).train()
    model = filled(candidate(*PLAIN.values(), 0.5)).train()
    with torch.no_grad():
        twice = {part: [getattr(model, part)(X.clone()) for _ in range(2)] for part in INSIDE}
        return {
            "what is left of x when all answers are dropped": silent(X.clone()),
            **{INSIDE[part]: not torch.equal(*pair) for part, pair in twice.items()},
        }


INSIDE = {
    "self_attn": "self_attn drops some of its weights",
    "feed_forward": "feed_forward drops some of its features",
}

EXERCISES = (
    Exercise(
        "GPTLayer",
        "gpt",
        15,
        (
            by_place(parameters_trial(GPTLayer, PLAIN, PARTS), *PLAIN),
            tried("sizes that all differ", X),
            tried("one token", X[:1, :1]),
            value_trial(
                "a later token",
                leaks,
                dict.fromkeys(
                    ("a later token is heard while training", "a later token is heard afterwards"),
                    False,
                ),
                says=FUTURE,
            ),
            value_trial(
                "dropout=0.5 in eval mode",
                steady,
                {"both answers are the same": True},
                stage="train and eval",
                says="In eval mode nothing may be random: dropout belongs to training.",
            ),
            value_trial(
                "dropout in training",
                dropped,
                {
                    "what is left of x when all answers are dropped": X,
                    "self_attn drops some of its weights": True,
                    "feed_forward drops some of its features": False,
                },
                stage="train and eval",
                says="Dropout acts on the attention weights, and on each sub-layer's answer before "
                "the sum; inside the feed-forward nothing is dropped.",
            ),
        ),
        (
            "Everything is built already: `CausalSelfAttention`, `FeedForward`, and an `AddNorm` "
            "for each of them. Where does dropout go, and where does it not?",
            '`FeedForward(d_model, 4 * d_model, activation="gelu")`, and '
            "`AddNorm(d_model, dropout, norm_first=True)`, twice.",
            "Both sub-layers take one tensor and return one, so `AddNorm` can be given them as "
            "they are: `self.add_norm1(x, self.self_attn)` first.",
        ),
        TORCHS,
    ),
)
