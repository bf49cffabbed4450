"""What is asked of chapter 04."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import keeps_still, survivors
from course_lib.exercises.trial import (
    D_K,
    B,
    T,
    Trial,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

BUILD = {"d_model": D_K}
PRE = BUILD | {"norm_first": True}
TAKEN = (
    "This lets torch normalize, the very thing you are building here. `AddNorm` may use it, "
    "a few cells further down; write out mean, variance and root first."
)


def numbers(*shape: int) -> Tensor:
    """Draw vectors whose mean is not 0 and whose variance is not 1."""
    return 3 + 2 * normal("x", *shape)


def normed(label: str, x: Tensor, **options: Any) -> Trial:
    """Compare outputs and gradients of a norm, for a gain and a shift of any kind."""
    return module_trial(label, {"d_model": x.size(-1), **options}, {"x": x})


@looks(
    "a look at mean and variance",
    "After a fresh norm, each vector has mean 0 and variance 1, where the sum of squares is "
    "divided by d_model.",
)
def moments(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Take mean and variance of every normalized vector, dividing by its width."""
    variance, mean = torch.var_mean(candidate(D_K)(numbers(B, T, D_K)), dim=-1, correction=0)
    return {"mean of each vector": mean.detach(), "variance of each vector": variance.detach()}


@looks(
    "other vectors around it",
    "Every vector is normalized by its own numbers alone: mean over the last axis.",
)
def company(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Change all vectors but one, and look whether that one comes out as before."""
    norm, x = candidate(D_K), numbers(B, T, D_K)
    others = normal("others", B, T, D_K)
    others[1, 2] = x[1, 2]
    same = torch.allclose(norm(x.clone())[1, 2], norm(others)[1, 2], atol=1e-5)
    return {"other vectors change the answer": not same}


@looks(
    "a vector of equal numbers", "A vector of equal numbers becomes zeros; eps keeps 0 / 0 away."
)
def flat(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Normalize a vector of equal numbers."""
    return {"output": candidate(D_K)(torch.full((1, 1, D_K), 0.5)).detach()}


def sublayer(x: Tensor) -> Tensor:
    """Answer something that depends on all numbers of a vector, and is not 0 at 0."""
    return torch.tanh(x @ normal("sub-layer", x.size(-1), x.size(-1)) + 0.5)


def around(label: str, build: dict, *shape: int, **how: Any) -> Trial:
    """Compare outputs and gradients around a sub-layer."""
    given = {"x": normal("x", *shape), "sublayer": sublayer}
    return module_trial(label, build | {"d_model": shape[-1]}, given, **how)


def reads(build: dict, says: str) -> Trial:
    """Look at what the sub-layer is given."""

    @looks("a look at what the sub-layer reads", says)
    def act(candidate: Callable[..., nn.Module]) -> dict[str, Tensor | None]:
        """Keep the first reading."""
        seen = []

        def note(x: Tensor) -> Tensor:
            """Keep a copy, and answer."""
            seen.append(x.detach().clone())
            return sublayer(x)

        candidate(**build).eval()(normal("x", B, T, D_K), note)
        return {"what the sub-layer reads": seen[0] if seen else None}

    return act


@looks(
    "a sub-layer that answers zeros",
    "The residual path is free: x itself arrives, whatever the norm does.",
)
def silent(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Look at what comes around a sub-layer that answers zeros, in pre-norm."""
    module = candidate(**PRE).eval()
    return {"output": module(normal("x", B, T, D_K), torch.zeros_like).detach()}


@looks(
    "a look at the result",
    "What a fresh post-norm returns has mean 0 and variance 1: the norm acts last, on the sum.",
)
def one_scale(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Take mean and variance of what post-norm returns."""
    output = candidate(**BUILD).eval()(normal("x", B, T, D_K), sublayer).detach()
    return {"means": output.mean(dim=-1), "variances": output.var(dim=-1, correction=0)}


def dropped(norm_first: bool) -> Trial:
    """Drop some of the sub-layer's answers: the first two numbers, 0 and 10, undo the norm."""

    @looks(
        f"dropout=0.2 in training, norm_first={norm_first}",
        "Dropout acts on each number of the sub-layer's answer by itself, before the sum, in "
        "training only, and divides the rest by 1 - dropout (§5.4).",
        "train and eval",
    )
    def act(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
        """Answer 3, but 0 in the first two columns."""
        x, answer = torch.zeros(4, 8, 12), torch.full((4, 8, 12), 3.0)
        x[..., 1], answer[..., :2] = 10.0, 0.0
        layer = candidate(d_model=12, dropout=0.2, norm_first=norm_first).train()
        output = layer(x, lambda _: answer.clone()).detach()
        zero, ten = output[..., :1], output[..., 1:2]
        added = 10 * (output[..., 2:] - zero) / (ten - zero)
        found = {"zeros come out": bool((output == 0).any())}
        return found | {"an answer of 3": survivors(added, "sentences", "positions", "features")}

    return act


EXERCISES = (
    Exercise(
        "LayerNorm",
        "add_norm",
        20,
        core={
            "parameters": (
                parameters_trial(
                    BUILD,
                    "Gain and shift are learned, one number for each feature: nn.Parameters "
                    "`weight` and `bias`, each of shape (d_model,).",
                ),
            ),
            "mean and variance": (company, moments),
            "formula": (
                normed("sizes that differ", numbers(B, T, D_K)),
                normed("sizes that are all equal", numbers(D_K, D_K, D_K)),
                flat,
            ),
        },
        hints=(
            "Mean and variance are taken over the last axis, one of each per vector. "
            "What does `keepdim=True` keep?",
            "The variance is the mean of the squared distances from the mean; `x.var()` divides "
            "by one less, unless told `correction=0`.",
            "Divide the centred vector by `(variance + self.eps).sqrt()`, then `self.weight * … + "
            "self.bias`; these two are `nn.Parameter`s, ones and zeros of shape `(d_model,)`.",
        ),
        shortcuts=dict.fromkeys((F.layer_norm, torch.layer_norm, torch.native_layer_norm), TAKEN),
        extras={
            "one vector": (normed("one vector and no more axes", numbers(D_K)),),
            "eps": (
                normed("eps=0.5", numbers(B, T, D_K), eps=0.5),
                normed("vectors with hardly any spread", 1e-3 * numbers(B, T, D_K)),
            ),
            "large mean": (
                normed("vectors around 10,000", 1e4 + (8 * normal("x", B, T, 8)).round()),
            ),
            "names": (names_trial(BUILD),),
        },
    ),
    Exercise(
        "AddNorm",
        "add_norm",
        15,
        core={
            "parameters": (
                parameters_trial(
                    BUILD,
                    "One norm, an attribute called `norm`, with a gain and a shift for each "
                    "feature.",
                ),
            ),
            "sub-layer": (reads(BUILD, "In post-norm the sub-layer reads x as it is."),),
            "sum and norm": (
                one_scale,
                around("sizes that differ", BUILD, B, T, D_K),
                around("sizes that are all equal", BUILD, D_K, D_K, D_K),
            ),
        },
        hints=(
            "There are two orders. Post-norm: run, drop, add, norm. Pre-norm: norm, run, drop, "
            "add. What goes *around* the sub-layer is `x` in both.",
            "`__init__` needs an `nn.LayerNorm(d_model)` called `norm`, an `nn.Dropout`, and has "
            "to keep `norm_first`.",
            "Post-norm is `self.norm(x + self.dropout(sublayer(x)))`. For pre-norm the norm moves "
            "to the inside: around the x that the sub-layer reads.",
        ),
        extras={
            "norm_first": (
                reads(PRE, "In pre-norm the sub-layer reads norm(x)."),
                silent,
                around("norm_first=True", PRE, B, T, D_K),
            ),
            "dropout": (
                dropped(False),
                keeps_still(
                    BUILD, {"x": normal("x", B, T, D_K), "sublayer": sublayer}, dropout=0.5
                ),
            ),
            "dropout in pre-norm": (dropped(True),),
            "names": (names_trial(BUILD),),
        },
    ),
)
