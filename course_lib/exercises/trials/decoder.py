"""What is asked of chapter 08: a stack is its layers in a row, all with one memory in view."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from course_lib.decoder import Decoder
from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import S, Trial, module_trial, parameters_trial
from course_lib.exercises.trials.decoder_layer import EXERCISES as LAYER
from course_lib.exercises.trials.decoder_layer import LAYER as SIZES
from course_lib.exercises.trials.decoder_layer import (
    SAME,
    by_place,
    good_ears,
    inputs,
    masks,
    no_leak,
    trained,
)
from course_lib.exercises.trials.layer_formulas import TORCHS, decoder

STACK = dict(num_layers=2, **SIZES)
SHARED = (
    "Every layer of a stack is an object of its own, kept in an nn.ModuleList `layers`; "
    "`norm` is a LayerNorm in pre-norm, and None in post-norm."
)


def stack_case(
    label: str, options: Mapping, given: Mapping, *, places: int = 2, **more: Any
) -> Trial:
    """Compare a stack with its layers' formulas in a row; its first arguments come by place."""
    how = {name: x for name, x in options.items() if name != "dropout"}
    last = "norm" if options.get("norm_first") else None

    def formulas(p: dict, *given: Any) -> Tensor:
        """Run two layers, and the final norm in pre-norm."""
        return decoder(p, ["layers.0.", "layers.1."], *given, last=last, **how)

    build = STACK | dict(options)
    case = module_trial(label, Decoder, build, given, formulas, **more)
    return by_place(case, *list(build)[:places])


def stack_parameters(label: str, **options: Any) -> Trial:
    """Compare names, shapes and sharing of a stack's parameters."""
    case = parameters_trial(Decoder, STACK | options, SHARED)
    return replace(by_place(case, "num_layers", "d_model"), label=label)


STACK_CASES = (
    stack_case("two layers and both masks", {}, inputs(**masks())),
    stack_case("a target as long as the source", {}, inputs(S, **masks(S))),
    stack_parameters("two layers in post-norm"),
    stack_parameters("two layers in pre-norm", norm_first=True, d_k=5, d_v=7),
    stack_case("norm_first=True", dict(norm_first=True, activation="gelu"), inputs(**masks())),
    stack_case(
        "norm_first given by place", dict(dropout=0.0, norm_first=True), inputs(**masks()), places=6
    ),
    no_leak(STACK),
    good_ears(STACK),
    trained(stack_case("training mode", {}, inputs(**masks()), training=True, says=SAME)),
)

EXERCISES = (
    *LAYER,
    Exercise(
        "Decoder",
        "decoder",
        15,
        STACK_CASES,
        (
            "It is the Encoder of chapter 07 with more to hand on. What changes from layer to "
            "layer, and what stays the same for all?",
            "Make the layers one by one and keep them in `nn.ModuleList`; x passes from layer to "
            "layer, the memory and the masks go to each as they came.",
            "Every argument goes on to the layers. `self.norm` is `nn.LayerNorm(d_model)` with "
            "`norm_first`, else `None`.",
        ),
        TORCHS,
    ),
)
