"""What is asked of chapter 05."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import keeps_still, survivors
from course_lib.exercises.trial import (
    B,
    S,
    by_name,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

SIZES = dict(d_model=6, d_ff=10)
EVEN = dict(d_model=4, d_ff=4)
X = normal("x", B, S, 6)


@looks("one position changed", "Every position is transformed alone: it depends on no other.")
def who_notices(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Change one position, and look where the answer changes."""
    layer = filled(candidate(**EVEN)).eval()
    x = normal("x", 4, 4, 4)
    other = x.clone()
    other[:, 1] += 1
    gap = (layer(other) - layer(x.clone())).abs().amax(dim=(0, 2))
    return {"a change at position 1 shows at": str((gap > 1e-5).nonzero().flatten().tolist())}


@looks(
    "dropout=0.25 in training mode",
    "Dropout sets each feature, after the activation, to 0 with the probability `dropout` and "
    "divides the rest by 1 - dropout.",
    kind="train and eval",
)
def dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Make all features that are looked at 2, and see what training makes of them."""
    layer = candidate(d_model=5, d_ff=8, dropout=0.25).train()
    with torch.no_grad():
        for name, weight in by_name(layer).items():
            weight.copy_(torch.eye(*weight.shape) if name.endswith("weight") else 1.0)
        output = layer(torch.ones(B, S, 5))
    found = survivors(output - 1, "sentences", "positions", "features")
    return {"a feature of 2": found}  # the bias of linear2 is no feature


EXERCISES = (
    Exercise(
        "FeedForward",
        "feed_forward",
        20,
        core={
            "parameters": (
                parameters_trial(
                    SIZES,
                    "Two layers, linear1 from d_model to d_ff and linear2 back, each with a bias.",
                ),
            ),
            "formula": (
                module_trial("sizes that all differ", SIZES, {"x": X}),
                module_trial("sizes that are all equal", EVEN, {"x": normal("x", 4, 4, 4)}),
                module_trial("a single vector", SIZES, {"x": X[0, 0]}),
            ),
            "every position alone": (who_notices,),
        },
        hints=(
            "Build four parts: a layer that projects up, the activation, dropout, a layer that "
            "projects down. Which two sizes does each `nn.Linear` connect?",
            "`ACTIVATIONS[activation]` is a class; call it to get the activation itself. "
            "`nn.Linear` works on the last axis, whatever stands before it: nothing has to be "
            "transposed or reshaped.",
            "In `forward`: linear1, then the activation, then dropout, then linear2. Nothing "
            "follows linear2.",
        ),
        extras={
            "activation": tuple(
                module_trial(f'activation="{name}"', SIZES | {"activation": name}, {"x": 1.5 * X})
                for name in ("gelu", "silu")
            ),
            "dropout": (dropped, keeps_still(SIZES, {"x": X}, dropout=0.5)),
            "names": (names_trial(SIZES),),
        },
    ),
)
