"""What is asked of chapter 19's feed-forward: the formula, feature by feature."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    D_K,
    D_V,
    B,
    T,
    Trial,
    filled,
    module_trial,
    normal,
    parameters_trial,
    value_trial,
)
from course_lib.exercises.trials.decoder_layer import asked, by_place
from course_lib.modern_decoder import SwiGLU

BUILD = dict(d_model=D_K, d_ff=D_V)


def formula(p: dict[str, Tensor], x: Tensor) -> Tensor:
    """Write every sum out; SiLU by its sigmoid, as a share of exponentials."""
    gate = torch.einsum("...d,fd->...f", x, p["gate.weight"])
    features = torch.einsum("...d,fd->...f", x, p["linear1.weight"])
    passed = features * gate / (1 + torch.exp(-gate))
    return torch.einsum("...f,df->...d", passed, p["linear2.weight"])


def tried(label: str, x: Tensor, d_ff: int = D_V, **more: Any) -> Trial:
    """Compare output and gradients with the formula."""
    build = dict(d_model=x.size(-1), d_ff=d_ff)
    return by_place(module_trial(label, SwiGLU, build, {"x": x}, formula, **more), *build)


def company(candidate: Callable) -> dict[str, bool]:
    """Change all vectors but one, and look whether that one comes out as before."""
    layer, x = filled(candidate(D_K, D_V)).eval(), normal("x", B, T, D_K)
    others = normal("others", B, T, D_K)
    others[1, 2] = x[1, 2]
    before, after = (asked(layer, {"x": given})[1, 2] for given in (x.clone(), others))
    return {"the company of a vector matters": not torch.allclose(before, after, atol=1e-5)}


def halves(candidate: Callable) -> dict[str, Tensor]:
    """Double one of the two lifts, and look by how much the answer grows."""
    found = {}
    for name in ("linear1", "gate"):
        layer, given = filled(candidate(D_K, D_V)).eval(), {"x": normal("x", B, T, D_K)}
        before = asked(layer, given)
        with torch.no_grad():
            getattr(layer, name).weight.mul_(2)
        found[name] = (asked(layer, given) / before - 2).abs().amax() < 1e-3
    return {f"twice {name} is twice the answer": bool(same) for name, same in found.items()}


EXERCISES = (
    Exercise(
        "SwiGLU",
        "modern_decoder",
        10,
        (
            by_place(
                parameters_trial(
                    SwiGLU,
                    BUILD,
                    "Three nn.Linear layers without biases: linear1 and gate lift from d_model to "
                    "d_ff, linear2 comes back.",
                ),
                *BUILD,
            ),
            value_trial(
                "other vectors around it",
                company,
                {"the company of a vector matters": False},
                says="Every position is transformed alone.",
            ),
            value_trial(
                "a look at the two lifts",
                halves,
                {
                    "twice linear1 is twice the answer": True,
                    "twice gate is twice the answer": False,
                },
                says="The features, linear1, come as they are and are multiplied; the SiLU stands "
                "on what `gate` gives.",
            ),
            tried("sizes that differ", normal("x", B, T, D_K)),
            tried("sizes that are all equal", normal("even", D_K, D_K, D_K), D_K),
            tried("one vector and no more axes", normal("one", D_K)),
            tried("large numbers", 20 * normal("x", B, T, D_K)),
            tried(
                "a layer that is being trained",
                normal("x", B, T, D_K),
                training=True,
                stage="train and eval",
                says="There is nothing random in it: training and eval mode give the same.",
            ),
        ),
        (
            "Both lifts read x. One of them goes through SiLU and says how much of each feature "
            "passes; the other is the feature itself.",
            "`nn.Linear(…, bias=False)`, three times; `F.silu` on what `self.gate` gives.",
            "`self.linear2(F.silu(self.gate(x)) * self.linear1(x))`",
        ),
    ),
)
