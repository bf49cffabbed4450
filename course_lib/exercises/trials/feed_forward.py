"""What is asked of chapter 05: two layers around an activation, at every position alone."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    B,
    S,
    Trial,
    by_name,
    filled,
    module_trial,
    normal,
    parameters_trial,
    value_trial,
)
from course_lib.exercises.outcomes import CLOSE
from course_lib.feed_forward import FeedForward

SIZES = dict(d_model=6, d_ff=10)
DROPPED = {"features": "0 or 2.61"}
ATTRIBUTES = {"activation makes of -1 and 2": "-0.16 or 1.95", "dropout.p": "0.25"}


def relu(x: Tensor) -> Tensor:
    """Keep what is positive."""
    return torch.where(x > 0, x, 0.0)


def gelu(x: Tensor) -> Tensor:
    """Weigh every number by the share of a normal distribution below it."""
    return x * torch.special.ndtr(x)


def feed_forward(named: Mapping[str, Tensor], x: Tensor, activation: Callable = relu) -> Tensor:
    """Write both layers as Einstein sums."""
    lifted = torch.einsum("...i,fi->...f", x, named["linear1.weight"]) + named["linear1.bias"]
    back = torch.einsum("...f,of->...o", activation(lifted), named["linear2.weight"])
    return back + named["linear2.bias"]


def tried(
    label: str,
    x: Tensor,
    build: Mapping[str, Any] = SIZES,
    activation: Callable = relu,
    **which: Any,
) -> Trial:
    """Compare output and gradients with the formula."""
    reference = partial(feed_forward, activation=activation)
    return module_trial(label, FeedForward, build, {"x": x}, reference, **which)


def who_hears(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Change one position, and look where the answer changes."""
    layer = filled(candidate(d_model=4, d_ff=4)).eval()
    x = normal("x", 4, 4, 4)
    other = x.clone()
    other[:, 1] += 1
    gap = (layer(other) - layer(x.clone())).abs().amax(dim=(0, 2))
    return {"a change at position 1 is heard at": str((gap > 1e-5).nonzero().flatten().tolist())}


def numbers(x: Tensor) -> str:
    """List the different numbers in a tensor, rounded."""
    found = sorted({round(value, 2) + 0.0 for value in x.flatten().tolist()})  # + 0.0: no -0
    return " or ".join(f"{value:g}" for value in found)


def dropped(candidate: Callable[..., nn.Module]) -> dict[str, str]:
    """Make all features that are looked at gelu(2), and see what training makes of them."""
    layer = candidate(d_model=5, d_ff=8, dropout=0.25, activation="gelu").train()
    named = by_name(layer)
    with torch.no_grad():
        for name, weight in named.items():
            weight.copy_(torch.eye(*weight.shape) if name.endswith("weight") else 1.0)
        output = layer(torch.ones(B, S, 5))
    return {"features": numbers(output - 1)}  # the bias of linear2 is no feature


def quiet(candidate: Callable[..., nn.Module], build: Mapping[str, Any], **rates: float) -> dict:
    """Look whether dropout keeps still in eval mode, and where nobody asked for it."""
    x = normal("x", B, S, 6)
    plain, dropping = filled(candidate(**build)).eval(), filled(candidate(**build, **rates)).eval()
    output = plain(x.clone())
    return {
        "in eval mode, dropout changes nothing": torch.allclose(dropping(x.clone()), output),
        "dropout 0 drops nothing in training": torch.allclose(plain.train()(x.clone()), output),
    }


def keeps_quiet(build: Mapping[str, Any], **rates: float) -> Trial:
    """Ask for a dropout that acts in training mode only, and only when asked for."""
    return value_trial(
        "dropout where it must not act",
        partial(quiet, build=build, **rates),
        dict.fromkeys(
            ("in eval mode, dropout changes nothing", "dropout 0 drops nothing in training"), True
        ),
        stage="train and eval",
        says="Dropout acts in training mode only, and only when asked for: nn.Dropout knows the "
        "mode, F.dropout has to be told.",
    )


def attributes(candidate: Callable[..., nn.Module]) -> dict[str, str]:
    """Ask a layer for what later chapters ask it for, once its numbers are right."""
    layer = filled(candidate(**SIZES, dropout=0.25, activation="gelu")).eval()
    x, named = normal("x", B, S, 6), by_name(layer)
    right = torch.allclose(layer(x.clone()), feed_forward(named, x, gelu), **CLOSE)
    still = quiet(candidate, SIZES, dropout=0.5).values()
    if not (right and all(still) and dropped(candidate) == DROPPED):
        return ATTRIBUTES  # first things first
    bent = layer.activation(torch.tensor([-1.0, 2.0]))
    return {"activation makes of -1 and 2": numbers(bent), "dropout.p": f"{layer.dropout.p:g}"}


EXERCISES = (
    Exercise(
        "FeedForward",
        "feed_forward",
        20,
        (
            parameters_trial(
                FeedForward,
                SIZES,
                "Two layers, linear1 from d_model to d_ff and linear2 back, each with its bias.",
            ),
            value_trial(
                "one position changed",
                who_hears,
                {"a change at position 1 is heard at": "[1]"},
                says="Every position is transformed alone: no other may hear of it.",
            ),
            tried("sizes that all differ", normal("x", B, S, 6)),
            tried("sizes that are all equal", normal("x", 4, 4, 4), dict(d_model=4, d_ff=4)),
            tried("a single vector", normal("x", 6)),
            tried(
                'activation="gelu"',
                1.5 * normal("x", B, S, 6),
                SIZES | {"activation": "gelu"},
                gelu,
            ),
            keeps_quiet(SIZES, dropout=0.5),
            value_trial(
                "dropout=0.25 in training mode",
                dropped,
                DROPPED,
                stage="train and eval",
                says="Dropout sets a share of the features, after the activation, to 0 and "
                "divides the rest by 1 - dropout.",
            ),
            value_trial(
                "the attributes that later chapters ask for",
                attributes,
                ATTRIBUTES,
                says="The layer keeps what it was asked for: its activation in activation, and "
                "in dropout an nn.Dropout.",
            ),
        ),
        (
            "Build four parts: a layer that widens, the activation, dropout, a layer that comes "
            "back. Which two sizes does each `nn.Linear` connect?",
            "`ACTIVATIONS[activation]` is a class; call it to get the activation itself. "
            "`nn.Linear` works on the last axis, whatever stands before it: nothing has to be "
            "turned or reshaped.",
            "In `forward`: linear1, then the activation, then dropout, then linear2. Nothing "
            "follows linear2.",
        ),
    ),
)
