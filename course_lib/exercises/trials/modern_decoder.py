"""What is asked of chapter 21: the norm and the feed-forward of today's models."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import (
    D_K,
    D_V,
    B,
    T,
    Trial,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

SIZES = dict(d_model=D_K, d_ff=D_V)
X = 3 + 2 * normal("x", B, T, D_K)  # the mean is not 0, the mean square not 1
Y = normal("y", B, T, D_K)
TAKEN = (
    "This lets torch normalize, the very thing you are building here: write out the squares, "
    "their mean and the root."
)


def norm(label: str, x: Tensor, says: str = "", **build: Any) -> Trial:
    """Compare outputs and gradients, for gains of any kind."""
    return module_trial(label, {"d_model": x.size(-1)} | build, {"x": x}, says=says)


def gated(label: str, x: Tensor, d_ff: int = D_V, says: str = "") -> Trial:
    """Compare outputs and gradients of a gated feed-forward."""
    return module_trial(label, dict(d_model=x.size(-1), d_ff=d_ff), {"x": x}, says=says)


@looks(
    "a fresh norm",
    "A fresh norm keeps the direction of each vector, as no mean is subtracted, and the squares of "
    "each average 1.",
)
def directions(candidate: Callable) -> dict[str, Tensor]:
    """Compare the direction of every vector before and after a fresh norm."""
    output = candidate(D_K)(X.clone()).detach()
    return {
        "cosine of each vector with what it was": F.cosine_similarity(output, X, dim=-1),
        "mean square of each vector": output.square().mean(dim=-1),
    }


EXERCISES = (
    Exercise(
        "RMSNorm",
        "modern_decoder",
        10,
        core={
            "parameters": (
                parameters_trial(
                    {"d_model": D_K},
                    "One nn.Parameter is learned: the gains `weight`, of shape (d_model,). There "
                    "is no shift.",
                ),
            ),
            "formula": (directions, norm("sizes that differ", X)),
            "each vector alone": (
                norm(
                    "sizes that are all equal",
                    3 + normal("even", D_K, D_K, D_K),
                    "Every vector is normalized by its own numbers alone: the mean of the squares "
                    "is taken over the last axis.",
                ),
                norm("one vector and no more axes", normal("one", D_K)),
            ),
        },
        hints=(
            "Read the name from the right: square every number, take the mean over the last "
            "axis, and of that the root. `keepdim=True` keeps the axis for the division.",
            "eps is added to the mean of the squares, *before* the root. `rsqrt()` is one over "
            "the root, so it is multiplied with.",
            "`self.weight * x * (x.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()`",
        ),
        shortcuts=dict.fromkeys(
            (F.rms_norm, torch.rms_norm, F.layer_norm, torch.layer_norm), TAKEN
        ),
        extras={
            "small vectors": (
                norm("a vector of zeros", torch.zeros(1, 1, D_K)),
                norm(
                    "vectors that are nearly zero",
                    1e-3 * X,
                    "eps, 1e-5 unless given, is added under the root.",
                ),
            ),
            "eps": (norm("eps=0.5", X, "eps is added under the root.", eps=0.5),),
            "names": (names_trial({"d_model": D_K}),),
        },
    ),
    Exercise(
        "SwiGLU",
        "modern_decoder",
        10,
        core={
            "parameters": (
                parameters_trial(
                    SIZES,
                    "Three nn.Linear layers without biases: linear1 and gate project from d_model "
                    "up to d_ff, linear2 projects back down.",
                ),
            ),
            "gate": (
                gated(
                    "sizes that differ",
                    Y,
                    says="The features, linear1, come as they are and are multiplied; the SiLU "
                    "stands on what `gate` gives.",
                ),
                gated("large numbers", 20 * Y),
            ),
            "each vector alone": (
                gated("sizes that are all equal", normal("even", D_K, D_K, D_K), D_K),
                gated("one vector and no more axes", normal("one", D_K)),
            ),
        },
        hints=(
            "Both projections up read x. One of them goes through SiLU and says how much of each "
            "feature passes; the other is the feature itself.",
            "`nn.Linear(…, bias=False)`, three times; `F.silu` on what `self.gate` gives.",
            "`self.linear2(F.silu(self.gate(x)) * self.linear1(x))`",
        ),
        extras={"names": (names_trial(SIZES),)},
    ),
)
