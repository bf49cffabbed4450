"""What is asked of chapter 04's norm: torch's answer, from one vector at a time."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.add_norm import LayerNorm
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

TAKEN = (
    "This lets torch normalize, the very thing you are building here. `AddNorm` may use it, "
    "a few cells further down; write out mean, variance and root first."
)


def numbers(*shape: int) -> Tensor:
    """Draw vectors whose mean is not 0 and whose variance is not 1."""
    return 3 + 2 * normal("x", *shape)


def tried(label: str, x: Tensor, build: Mapping[str, Any] | None = None, **how: Any) -> Trial:
    """Compare outputs and gradients with torch's norm, for a gain and a shift of any kind."""
    build = build or {"d_model": x.size(-1)}

    def reference(named: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Ask torch's kernel."""
        return F.layer_norm(x, x.shape[-1:], named["weight"], named["bias"], build.get("eps", 1e-5))

    return module_trial(label, LayerNorm, build, {"x": x}, reference, **how)


def fresh(candidate: Callable) -> dict[str, Tensor]:
    """Return the gain and the shift of a fresh norm."""
    norm = candidate(D_K)
    return {"weight": norm.weight.detach(), "bias": norm.bias.detach()}


def means(candidate: Callable) -> dict[str, Tensor]:
    """Average every normalized vector."""
    return {"mean of each vector": candidate(D_K)(numbers(B, T, D_K)).mean(-1).detach()}


def variances(candidate: Callable) -> dict[str, Tensor]:
    """Take the variance of every normalized vector, dividing by its width."""
    output = candidate(D_K)(numbers(B, T, D_K)).detach()
    return {"variance of each vector": output.var(dim=-1, correction=0)}


def company(candidate: Callable) -> dict[str, bool]:
    """Change all vectors but one, and look whether that one comes out as before."""
    norm, x = candidate(D_K), numbers(B, T, D_K)
    others = normal("others", B, T, D_K)
    others[1, 2] = x[1, 2]
    same = torch.allclose(norm(x.clone())[1, 2], norm(others)[1, 2], atol=1e-5)
    return {"the company of a vector matters": not same}


def flat(candidate: Callable) -> dict[str, Tensor]:
    """Normalize a vector of equal numbers."""
    return {"output": candidate(D_K)(torch.full((1, 1, D_K), 0.5)).detach()}


PROPERTIES = (
    value_trial(
        "a fresh norm",
        fresh,
        {"weight": torch.ones(D_K), "bias": torch.zeros(D_K)},
        says="A fresh norm only normalizes: its gain is 1 and its shift 0.",
    ),
    value_trial(
        "other vectors around it",
        company,
        {"the company of a vector matters": False},
        says="Every vector is normalized by its own numbers alone: mean over the last axis.",
    ),
    value_trial(
        "a look at the mean",
        means,
        {"mean of each vector": torch.zeros(B, T)},
        says="After a fresh norm, the numbers of each vector average 0.",
    ),
    value_trial(
        "a look at the variance",
        variances,
        {"variance of each vector": torch.ones(B, T)},
        says="After a fresh norm, each vector has variance 1, "
        "where the sum of squares is divided by d_model.",
    ),
    value_trial(
        "a vector of equal numbers",
        flat,
        {"output": torch.zeros(1, 1, D_K)},
        says="A vector of equal numbers becomes zeros; eps keeps 0 / 0 away.",
    ),
)

EXERCISES = (
    Exercise(
        "LayerNorm",
        "add_norm",
        20,
        (
            parameters_trial(
                LayerNorm,
                {"d_model": D_K},
                "Gain and shift are learned, one number for each feature: nn.Parameters `weight` "
                "and `bias`, each of shape (d_model,).",
            ),
            *PROPERTIES,
            tried("sizes that differ", numbers(B, T, D_K)),
            tried("sizes that are all equal", numbers(D_K, D_K, D_K)),
            tried("one vector and no more axes", numbers(D_K)),
            tried("eps=0.5", numbers(B, T, D_K), {"d_model": D_K, "eps": 0.5}),
            tried("vectors with hardly any spread", 1e-3 * numbers(B, T, D_K)),
            tried(
                "a norm that is being trained",
                numbers(B, T, D_K),
                training=True,
                stage="train and eval",
                says="A norm does the same in training as in eval mode.",
            ),
        ),
        (
            "Mean and variance are taken over the last axis, one of each per vector. "
            "What does `keepdim=True` keep?",
            "The variance is the mean of the squared distances from the mean; `x.var()` divides "
            "by one less, unless told `correction=0`.",
            "Divide the centred vector by `(variance + self.eps).sqrt()`, then `self.weight * … + "
            "self.bias`; these two are `nn.Parameter`s, ones and zeros of shape `(d_model,)`.",
        ),
        dict.fromkeys((F.layer_norm, torch.layer_norm, torch.native_layer_norm), TAKEN),
    ),
)
