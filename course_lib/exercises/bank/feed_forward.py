"""Exercises for chapter 05: trials, known mistakes and correct answers."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import keeps_still, survivors
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.trial import (
    B,
    S,
    as_trial,
    by_name,
    filled,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

SIZES = dict(d_model=6, d_ff=10)
EVEN = dict(d_model=4, d_ff=4)
X = normal("x", B, S, 6)
LAYERS = "linear1 maps d_model to d_ff, linear2 maps d_ff to d_model, and both have a bias."


@as_trial("one position changed", "The output at a position must depend only on that position.")
def affected_positions(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    layer = filled(candidate(**EVEN)).eval()
    x = normal("x", 4, 4, 4)
    other = x.clone()
    other[:, 1] += 1
    gap = (layer(other) - layer(x.clone())).abs().amax(dim=(0, 2))
    return {
        "positions whose output changes with position 1": str(
            (gap > 1e-5).nonzero().flatten().tolist()
        )
    }


@as_trial(
    "dropout=0.25 in training",
    "After the activation, dropout must set each feature to 0 with probability `dropout`, and "
    "divide the other features by 1 - dropout.",
    kind="train and eval",
)
def dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    layer = candidate(d_model=5, d_ff=8, dropout=0.25).train()
    with torch.no_grad():
        for name, weight in by_name(layer).items():
            weight.copy_(torch.eye(*weight.shape) if name.endswith("weight") else 1.0)
        output = layer(torch.ones(B, S, 5))
    found = survivors(output - 1, "sentences", "positions", "features")
    return {"a feature of 2": found}  # without the bias of linear2


gelu_dropped = replace(dropped, measure=lambda x: dropped.measure(partial(x, activation="gelu")))


EXERCISES = (
    Exercise(
        "FeedForward",
        20,
        core={
            "parameters": (parameters_trial(SIZES, LAYERS),),
            "formula": (
                module_trial("sizes that all differ", SIZES, {"x": X}),
                module_trial("sizes that are all equal", EVEN, {"x": normal("x", 4, 4, 4)}),
                module_trial("a single vector", SIZES, {"x": X[0, 0]}),
            ),
            "position-wise": (affected_positions,),
        },
        formula="Equation (2) is max(0, xW₁ + b₁)W₂ + b₂. `activation` replaces max(0, …).",
        hints=(
            "Build four parts: a layer that projects up to d_ff, the activation, dropout, and a "
            "layer that projects back. What are the input and output sizes of each `nn.Linear`?",
            "`ACTIVATIONS[activation]` is a class, so call it to create the activation. "
            "`nn.Linear` works on the last axis of any tensor, so you do not have to transpose or "
            "reshape anything.",
            "In `forward`, apply linear1, the activation, dropout and linear2, and nothing after "
            "linear2.",
        ),
        extras={
            "activation": tuple(
                module_trial(f'activation="{name}"', SIZES | {"activation": name}, {"x": 1.5 * X})
                for name in ("gelu", "silu")
            ),
            "dropout": (dropped, keeps_still(SIZES, {"x": X}, dropout=0.5)),
            "dropout after gelu": (gelu_dropped,),
            "bias": (module_trial("bias=False", SIZES | {"bias": False}, {"x": X}),),
            "names": (names_trial(SIZES),),
        },
        rejects=("(0, 8)", '(4, 8, activation="sine")', "(4, 8)(torch.ones(2, 3))"),
    ),
)


# known mistakes


FIRST = "self.linear1 = nn.Linear(d_model, d_ff, bias)"
SECOND = "self.linear2 = nn.Linear(d_ff, d_model, bias)"
ACTIVATION = "ACTIVATIONS[activation]()"
FEATURES = "self.activation(self.linear1(x))"
BACK = "self.linear2(self.dropout(features))"

MISTAKES = {
    "FeedForward": {
        "relu_missing: there is no activation between the layers, so the two of them amount to a "
        "single linear layer [YujiaBao/ls #1]": (FEATURES, "self.linear1(x)"),
        "activation_last: the activation comes after linear2 instead of between the layers "
        "[goruck/nilm #1]": (
            (FEATURES, "self.linear1(x)"),
            (BACK, "self.activation(self.linear2(self.dropout(features)))"),
        ),
        "activation_first: the activation is applied to x, before linear1": (
            FEATURES,
            "self.linear1(self.activation(x))",
        ),
        "activation_twice: there is a second activation after linear2, so no output can be "
        "negative [namedtensor/notation "
        "#72]": (BACK, "self.activation(self.linear2(self.dropout(features)))"),
        "activation_ignored: the activation is always ReLU, even if `activation` specifies a "
        "different one "
        "[NVlabs/Forecasting-Model-Search #6; bytedance/lightseq #231]": (ACTIVATION, "nn.ReLU()"),
        "gelu_always: the activation is always GELU, but the default is ReLU, as in the paper": (
            ACTIVATION,
            "nn.GELU()",
        ),
        "gelu_by_tanh: GELU is computed with the tanh approximation instead of exactly "
        "[kyutai-labs/pocket-tts #278, chelsea0x3b/dfdx #804]": (
            ACTIVATION,
            f'nn.GELU("tanh") if activation == "gelu" else {ACTIVATION}',
        ),
        "dropout_always_on: F.dropout is called without training=self.training, so it is also "
        "active in eval mode [pytorch/pytorch #26338; rixwew/pytorch-fm #21]": (
            BACK,
            "self.linear2(nn.functional.dropout(features, self.dropout.p))",
        ),
        "dropout_on_output: dropout is applied to the output "
        "of linear2 instead of to the features": (BACK, "self.dropout(self.linear2(features))"),
        "both_layers_d_model_wide: both layers have width d_model, and d_ff is not used "
        "[brightmart/text_classification #86]": (
            (FIRST, "self.linear1 = nn.Linear(d_model, d_model)"),
            (SECOND, "self.linear2 = nn.Linear(d_model, d_model)"),
        ),
        "d_ff_fixed: the inner width is always 4 · d_model, and d_ff is not used "
        "[HorizonRobotics/alf #1299]": (
            (FIRST, "self.linear1 = nn.Linear(d_model, 4 * d_model)"),
            (SECOND, "self.linear2 = nn.Linear(4 * d_model, d_model)"),
        ),
        "features_centered_over_tokens: the mean over all tokens is subtracted from the features, "
        "so each output depends on the other "
        "tokens": (FEATURES, "(f := self.linear1(x)).relu() - f.relu().mean(dim=-2, keepdim=True)"),
        "bias_missing: the layers have no bias, but equation (2) adds b₁ and b₂": (
            (FIRST, "self.linear1 = nn.Linear(d_model, d_ff, bias=False)"),
            (SECOND, "self.linear2 = nn.Linear(d_ff, d_model, bias=False)"),
        ),
        "residual_inside: x is added to the output here, even though AddNorm does that later "
        "[NVlabs/Forecasting-Model-Search #6]": (BACK, "x + self.linear2(self.dropout(features))"),
        "dropout_before_the_activation: dropout comes before the activation, so the activation "
        "gets numbers that are divided by 1 - dropout": (
            (FEATURES, "self.activation(self.dropout(self.linear1(x)))"),
            (BACK, "self.linear2(features)"),
        ),
        "bias_for_linear1_only: `bias` is passed to linear1 but not to linear2, so bias=False "
        "leaves one of the two biases": (SECOND, SECOND.replace(", bias", "")),
        **ignored(("dropout", (BACK, "self.linear2(features)"))),
        **ignored(("bias", ("d_ff, bias)", "d_ff)"), ("d_model, bias)", "d_model)"))),
        "negative_numbers_kept: `clamp(max=0)` keeps the negative features instead of the positive "
        "ones; ReLU is `clamp(min=0)`": (FEATURES, "self.linear1(x).clamp(max=0)"),
    },
}


# right answers

ANSWERS = {
    "FeedForward": {
        "by_functions: the activation and dropout are functions of torch.nn.functional": (
            (ACTIVATION, "getattr(F, activation)"),
            (BACK, "self.linear2(F.dropout(features, self.dropout.p, self.training))"),
        ),
    },
}
