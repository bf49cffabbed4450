"""What is asked of chapter 07: its layer, and a stack of layers that each learn on their own."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.encoder import Encoder
from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    H,
    Trial,
    filled,
    module_trial,
    parameters_trial,
    value_trial,
)
from course_lib.exercises.trials import encoder_layer
from course_lib.exercises.trials.encoder_layer import (
    HEADS,
    HEARD,
    PADDING,
    SIZES,
    X,
    who_hears,
)
from course_lib.exercises.trials.feed_forward import keeps_quiet
from course_lib.exercises.trials.layer_formulas import TORCHS
from course_lib.exercises.trials.torch_encoder_reference import torch_encoder

STACK = dict(num_layers=3) | SIZES
PLACES = (2, 6, H, 10, 0.0, True)  # num_layers, d_model, num_heads, d_ff, dropout, norm_first


def tried(label: str, build: Mapping[str, Any], mask: Tensor | None = None, **which: Any) -> Trial:
    """Compare output and gradients with torch's stack."""
    inputs = {"x": X} if mask is None else {"x": X, "mask": mask}
    reference = which.pop("reference", torch_encoder)
    return module_trial(label, Encoder, STACK | build, inputs, reference, **which)


def by_place() -> Trial:
    """Compare a pre-norm stack whose arguments are given by their places."""
    reference = partial(torch_encoder, norm_first=True)
    case = module_trial("arguments by place", partial(Encoder, *PLACES), {}, {"x": X}, reference)
    return Trial(case.label, lambda candidate: case.act(partial(candidate, *PLACES)), case.wanted)


def training(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Call a stack twice in training mode."""
    stack = filled(candidate(**STACK, dropout=0.5)).train()
    return {"two calls differ": not torch.equal(stack(X.clone()), stack(X.clone()))}


EXERCISES = (
    *encoder_layer.EXERCISES,
    Exercise(
        "Encoder",
        "encoder",
        15,
        (
            parameters_trial(
                Encoder,
                STACK,
                "Every layer has parameters of its own, in an nn.ModuleList called layers (a "
                "plain list hides them from torch); in post-norm nothing else has any.",
            ),
            parameters_trial(
                Encoder,
                STACK | dict(norm_first=True, d_k=5, d_v=7),
                "A pre-norm stack has layers with parameters of their own, and a last LayerNorm "
                "called norm.",
            ),
            value_trial(
                "one position changed",
                partial(who_hears, build=STACK),
                HEARD,
                says="Every layer needs the mask: hidden padding is heard by nobody else.",
            ),
            tried("three layers", {}),
            tried("a padding mask", {}, PADDING),
            tried(
                'norm_first=True, activation="gelu" and a mask for every head',
                dict(norm_first=True, activation="gelu"),
                HEADS,
                reference=partial(torch_encoder, norm_first=True, activation="gelu"),
            ),
            by_place(),
            keeps_quiet(STACK, dropout=0.5, attention_dropout=0.5),
            value_trial(
                "dropout=0.5 in training mode",
                training,
                {"two calls differ": True},
                stage="train and eval",
                says="The layers get every argument, dropout too.",
            ),
        ),
        (
            "Make `num_layers` layers, one call of `EncoderLayer` for each, and keep them where "
            "torch finds their parameters. Every argument goes on to the layers.",
            "`nn.ModuleList` takes a list of modules. In `forward` every layer reads what the "
            "layer before it wrote, and gets the mask.",
            "With `norm_first`, `self.norm` is an `nn.LayerNorm(d_model)` that `forward` applies "
            "at the end; otherwise it is `None`.",
        ),
        TORCHS,
    ),
)
