"""What is asked of chapter 04: a norm of one's own, and a sum that keeps one path open."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.add_norm import AddNorm
from course_lib.exercises.check import Exercise
from course_lib.exercises.dropout_detector import HALF, what_is_dropped
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
from course_lib.exercises.trials import layer_norm

KINDS = {False: "norm_first=False", True: "norm_first=True"}


def sublayer(x: Tensor) -> Tensor:
    """Answer something that depends on all numbers of a vector."""
    return torch.tanh(x @ normal("sub-layer", x.size(-1), x.size(-1)))


def normed(x: Tensor) -> Tensor:
    """Normalize as a fresh norm does."""
    return F.layer_norm(x, x.shape[-1:])


def tried(label: str, norm_first: bool, *shape: int) -> Trial:
    """Compare outputs and gradients with the formula on torch's kernel."""
    build = {"d_model": shape[-1], "norm_first": norm_first}

    def reference(named: Mapping[str, Tensor], x: Tensor, run: Callable) -> Tensor:
        """Write the formula out."""
        learned = named["norm.weight"], named["norm.bias"]
        if norm_first:
            return torch.add(x, run(F.layer_norm(x, x.shape[-1:], *learned)))
        return F.layer_norm(torch.add(x, run(x)), x.shape[-1:], *learned)

    given = {"x": normal("x", *shape), "sublayer": sublayer}
    return module_trial(f"{KINDS[norm_first]}, {label}", AddNorm, build, given, reference)


def built(candidate: Callable, norm_first: bool, dropout: float = 0.0) -> Any:
    """Build one in training mode."""
    return candidate(d_model=D_K, dropout=dropout, norm_first=norm_first)


def readings(candidate: Callable, norm_first: bool) -> list[Tensor]:
    """List what the sub-layer was given, call by call."""
    seen = []

    def note(x: Tensor) -> Tensor:
        """Keep a copy, and answer."""
        seen.append(x.detach().clone())
        return sublayer(x)

    built(candidate, norm_first)(normal("x", B, T, D_K), note)
    return seen


def calls(candidate: Callable) -> dict[str, int]:
    """Count the calls of the sub-layer, for both kinds."""
    return {
        f"calls of the sub-layer, {label}": len(readings(candidate, norm_first))
        for norm_first, label in KINDS.items()
    }


def reads(norm_first: bool) -> Trial:
    """Look at what the sub-layer is given."""
    x = normal("x", B, T, D_K)
    says = "In pre-norm the sub-layer reads norm(x)."
    if not norm_first:
        says = "In post-norm the sub-layer reads x as it is."

    def act(candidate: Callable) -> dict[str, Tensor]:
        """Keep the first reading."""
        first, *_ = readings(candidate, norm_first) or [None]
        return {"what the sub-layer reads": first}

    right = {"what the sub-layer reads": normed(x) if norm_first else x}
    return value_trial(f"{KINDS[norm_first]}, a look at its input", act, right, says=says)


def silent(norm_first: bool) -> Trial:
    """Look at what comes around a sub-layer that answers zeros."""
    x = normal("x", B, T, D_K)
    says = (
        "The path around the sub-layer is free: x itself arrives, whatever the norm does."
        if norm_first
        else "What goes around the sub-layer is x, and the norm acts on the sum."
    )

    def act(candidate: Callable) -> dict[str, Tensor]:
        """Say nothing."""
        return {"output": built(candidate, norm_first)(x.clone(), torch.zeros_like).detach()}

    right = {"output": x if norm_first else normed(x)}
    return value_trial(f"{KINDS[norm_first]}, zeros as the answer", act, right, says=says)


def one_scale(candidate: Callable) -> dict[str, Tensor]:
    """Take mean and variance of what post-norm returns."""
    output = built(candidate, False)(normal("x", B, T, D_K), sublayer).detach()
    return {"means": output.mean(dim=-1), "variances": output.var(dim=-1, correction=0)}


def dropped(norm_first: bool) -> Trial:
    """Find out which numbers dropout removes in training."""
    x = normal("x", B, T, D_K)
    before, after = (normed, torch.clone) if norm_first else (torch.clone, normed)
    answer = sublayer(before(x))
    guesses = {
        "the answer of the sub-layer": lambda mask: after(x + mask * answer),
        "the sum": lambda mask: after(mask * (x + answer)),
        "what the sub-layer reads": lambda mask: after(x + sublayer(mask * before(x))),
        "the path around the sub-layer": lambda mask: after(mask * x + answer),
        "the result": lambda mask: mask * after(x + answer),
    }

    def act(candidate: Callable) -> dict[str, str]:
        """Call one that is being trained."""
        with torch.no_grad():
            output = built(candidate, norm_first, HALF).train()(x.clone(), sublayer)
            return {"dropout acts on": what_is_dropped(output, after(x + answer), guesses)}

    return value_trial(
        f"{KINDS[norm_first]}, dropout=0.5 in training",
        act,
        {"dropout acts on": "the answer of the sub-layer"},
        stage="train and eval",
        says="Dropout acts on the sub-layer's answer, before the sum, in training only (§5.4).",
    )


def rested(norm_first: bool) -> Trial:
    """Call one with dropout in eval mode."""
    x = normal("x", B, T, D_K)
    right = x + sublayer(normed(x)) if norm_first else normed(x + sublayer(x))

    def act(candidate: Callable) -> dict[str, Tensor]:
        """Call one that is not being trained."""
        module = built(candidate, norm_first, HALF).eval()
        return {"output": module(x.clone(), sublayer).detach()}

    return value_trial(
        f"{KINDS[norm_first]}, dropout=0.5 in eval mode",
        act,
        {"output": right},
        stage="train and eval",
        says="In eval mode nothing is dropped.",
    )


EXERCISES = (
    *layer_norm.EXERCISES,
    Exercise(
        "AddNorm",
        "add_norm",
        15,
        (
            parameters_trial(
                AddNorm,
                {"d_model": D_K},
                "One norm, an attribute called `norm`, with a gain and a shift for each feature.",
            ),
            reads(False),
            reads(True),
            value_trial(
                "a sub-layer that counts its calls",
                calls,
                {f"calls of the sub-layer, {label}": 1 for label in KINDS.values()},
                says="The sub-layer runs once: keep its answer in a variable.",
            ),
            silent(True),
            value_trial(
                "norm_first=False, a look at the result",
                one_scale,
                {"means": torch.zeros(B, T), "variances": torch.ones(B, T)},
                says="What a fresh post-norm returns has mean 0 and variance 1: "
                "the norm acts last, on the sum.",
            ),
            silent(False),
            *(tried("sizes that differ", kind, B, T, D_K) for kind in KINDS),
            *(tried("sizes that are all equal", kind, D_K, D_K, D_K) for kind in KINDS),
            *(rested(kind) for kind in KINDS),
            *(dropped(kind) for kind in KINDS),
        ),
        (
            "There are two orders. Post-norm: run, drop, add, norm. Pre-norm: norm, run, drop, "
            "add. What goes *around* the sub-layer is `x` in both.",
            "`__init__` needs an `nn.LayerNorm(d_model)` called `norm`, an `nn.Dropout`, and has "
            "to keep `norm_first`.",
            "Post-norm is `self.norm(x + self.dropout(sublayer(x)))`. For pre-norm the norm moves "
            "to the inside: around the x that the sub-layer reads.",
        ),
    ),
)
