"""What is asked of chapter 19's norm: torch's answer, every vector alone, its mean left alone."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    D_K,
    B,
    T,
    Trial,
    module_trial,
    normal,
    parameters_trial,
    value_trial,
)
from course_lib.modern_decoder import RMSNorm

TAKEN = (
    "This lets torch normalize, the very thing you are building here: write out the squares, "
    "their mean and the root."
)


def numbers(*shape: int) -> Tensor:
    """Draw vectors whose mean is not 0 and whose mean square is not 1."""
    return 3 + 2 * normal("x", *shape)


def tried(label: str, x: Tensor, build: Mapping[str, Any] | None = None, **how: Any) -> Trial:
    """Compare outputs and gradients with torch's norm, for gains of any kind."""
    build = build or {"d_model": x.size(-1)}

    def reference(named: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Ask torch's kernel."""
        return F.rms_norm(x, x.shape[-1:], named["weight"], build.get("eps", 1e-5))

    return module_trial(label, RMSNorm, build, {"x": x}, reference, **how)


def fresh(candidate: Callable) -> dict[str, Tensor]:
    """Return the gains of a fresh norm."""
    return {"weight": candidate(D_K).weight.detach()}


def squares(candidate: Callable) -> dict[str, Tensor]:
    """Take the mean square of every normalized vector."""
    output = candidate(D_K)(numbers(B, T, D_K)).detach()
    return {"mean square of each vector": output.square().mean(dim=-1)}


def directions(candidate: Callable) -> dict[str, Tensor]:
    """Compare the direction of every vector before and after."""
    x = numbers(B, T, D_K)
    output = candidate(D_K)(x.clone()).detach()
    return {"cosine of each vector with what it was": F.cosine_similarity(output, x, dim=-1)}


def company(candidate: Callable) -> dict[str, bool]:
    """Change all vectors but one, and look whether that one comes out as before."""
    norm, x = candidate(D_K), numbers(B, T, D_K)
    others = normal("others", B, T, D_K)
    others[1, 2] = x[1, 2]
    same = torch.allclose(norm(x.clone())[1, 2], norm(others)[1, 2], atol=1e-5)
    return {"the company of a vector matters": not same}


def nothing(candidate: Callable) -> dict[str, Tensor]:
    """Normalize a vector of zeros."""
    return {"output": candidate(D_K)(torch.zeros(1, 1, D_K)).detach()}


PROPERTIES = (
    value_trial(
        "a fresh norm",
        fresh,
        {"weight": torch.ones(D_K)},
        says="The gains start at 1: a fresh norm does nothing but normalize.",
    ),
    value_trial(
        "other vectors around it",
        company,
        {"the company of a vector matters": False},
        says="Every vector is normalized by its own numbers alone: the mean of the squares is "
        "taken over the last axis.",
    ),
    value_trial(
        "a vector of zeros",
        nothing,
        {"output": torch.zeros(1, 1, D_K)},
        says="Zeros stay zeros; eps, added under the root, keeps 0 / 0 away.",
    ),
    value_trial(
        "a look at the direction",
        directions,
        {"cosine of each vector with what it was": torch.ones(B, T)},
        says="A vector keeps its direction: RMSNorm scales, and takes no mean away.",
    ),
    value_trial(
        "a look at the mean square",
        squares,
        {"mean square of each vector": torch.ones(B, T)},
        says="After a fresh norm the squares of each vector average 1.",
    ),
)

EXERCISES = (
    Exercise(
        "RMSNorm",
        "modern_decoder",
        10,
        (
            parameters_trial(
                RMSNorm,
                {"d_model": D_K},
                "One nn.Parameter is learned: the gains `weight`, of shape (d_model,). A shift "
                "there is not.",
            ),
            *PROPERTIES,
            tried("sizes that differ", numbers(B, T, D_K)),
            tried("sizes that are all equal", numbers(D_K, D_K, D_K)),
            tried("one vector and no more axes", numbers(D_K)),
            tried("eps=0.5", numbers(B, T, D_K), {"d_model": D_K, "eps": 0.5}),
            tried("vectors that are nearly zero", 1e-3 * numbers(B, T, D_K)),
            tried(
                "a norm that is being trained",
                numbers(B, T, D_K),
                training=True,
                stage="train and eval",
                says="A norm does the same in training as in eval mode.",
            ),
        ),
        (
            "Read the name from the right: square every number, take the mean over the last "
            "axis, and of that the root. `keepdim=True` keeps the axis for the division.",
            "eps is added to the mean of the squares, *before* the root. `rsqrt()` is one over "
            "the root, so it is multiplied with.",
            "`self.weight * x * (x.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()`",
        ),
        dict.fromkeys((F.rms_norm, torch.rms_norm, F.layer_norm, torch.layer_norm), TAKEN),
    ),
)
