"""Exercises of chapter 05: trials, known mistakes and right answers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
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
        unnamed=("self.linear2(self.dropout(features))", "self.linear2(features.sin())"),
    ),
)


# known mistakes

layer = known("feed_forward", "FeedForward")

FIRST = "self.linear1 = nn.Linear(d_model, d_ff, bias)"
SECOND = "self.linear2 = nn.Linear(d_ff, d_model, bias)"
FEATURES = "self.activation(self.linear1(x))"
BACK = "self.linear2(self.dropout(features))"

MISTAKES = (
    layer(
        "relu_missing",
        "no activation stands between the layers: two linear layers in a row are one",
        (FEATURES, "self.linear1(x)"),
        seen="YujiaBao/ls #1; asked in d2l-ai/d2l-en #1564",
    ),
    layer(
        "activation_last",
        "the activation comes after linear2 instead of between the layers",
        (FEATURES, "self.linear1(x)"),
        (BACK, "self.activation(self.linear2(self.dropout(features)))"),
        seen="goruck/nilm #1, a feed-forward layer after the paper",
    ),
    layer(
        "activation_twice",
        "linear2 has an activation after it, too: no answer can be negative then",
        (BACK, "self.activation(self.linear2(self.dropout(features)))"),
        seen="namedtensor/notation #72 (a feed-forward layer that ends with a ReLU)",
    ),
    layer(
        "activation_ignored",
        "the activation is always ReLU, whatever is asked for",
        ("ACTIVATIONS[activation]()", "nn.ReLU()"),
        seen="NVlabs/Forecasting-Model-Search #6; bytedance/lightseq #231",
    ),
    layer(
        "gelu_always",
        "the activation is GELU; the paper's, and the default, is ReLU",
        ("ACTIVATIONS[activation]()", "nn.GELU()"),
    ),
    layer(
        "gelu_by_tanh",
        "GELU is the approximation by tanh instead of the exact one",
        (
            "ACTIVATIONS[activation]()",
            'ACTIVATIONS[activation](*["tanh"] * (activation == "gelu"))',
        ),
        seen="kyutai-labs/pocket-tts #278, chelsea0x3b/dfdx #804",
    ),
    layer(
        "dropout_always_on",
        "F.dropout is not told the mode, and goes on dropping in eval mode",
        (BACK, "self.linear2(nn.functional.dropout(features, self.dropout.p))"),
        seen="pytorch/pytorch #26338; rixwew/pytorch-fm #21",
    ),
    layer(
        "dropout_on_output",
        "dropout acts on what linear2 says instead of on the features",
        (BACK, "self.dropout(self.linear2(features))"),
        seen="BERT does so on purpose; lucidrains/perceiver-pytorch #57 discusses the place",
    ),
    layer(
        "both_layers_d_model_wide",
        "both layers are d_model wide, and d_ff is not used",
        (FIRST, "self.linear1 = nn.Linear(d_model, d_model)"),
        (SECOND, "self.linear2 = nn.Linear(d_model, d_model)"),
        seen="brightmart/text_classification #86",
    ),
    layer(
        "d_ff_fixed",
        "d_ff is a fixed 4 · d_model, whatever is asked for",
        (FIRST, "self.linear1 = nn.Linear(d_model, 4 * d_model)"),
        (SECOND, "self.linear2 = nn.Linear(4 * d_model, d_model)"),
        seen="HorizonRobotics/alf #1299; nanoGPT, which has no d_ff",
    ),
    layer(
        "features_centred_over_tokens",
        "the features are centred over the tokens: each answer depends on the other tokens",
        (FEATURES, "(f := self.linear1(x)).relu() - f.relu().mean(dim=-2, keepdim=True)"),
    ),
    layer(
        "bias_missing",
        "the layers have no bias; equation (2) adds b₁ and b₂",
        (FIRST, "self.linear1 = nn.Linear(d_model, d_ff, bias=False)"),
        (SECOND, "self.linear2 = nn.Linear(d_ff, d_model, bias=False)"),
    ),
    layer(
        "residual_inside",
        "the input is added here already; that is AddNorm's task",
        (BACK, "x + self.linear2(self.dropout(features))"),
        seen="NVlabs/Forecasting-Model-Search #6 shows one; nlpyang/hiersumm #28 asks about two",
    ),
    *ignored(layer, ("dropout", (BACK, "self.linear2(features)"))),
    layer(
        "negative_numbers_kept",
        "`clamp(max=0)` keeps the negative features instead of the positive ones; ReLU is "
        "`clamp(min=0)`",
        (FEATURES, "self.linear1(x).clamp(max=0)"),
    ),
)


# right answers


class ByFunctions(nn.Module):
    """Call torch's functions."""

    def __init__(self, d_model, d_ff, dropout=0.0, activation="relu"):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout, self.activation = nn.Dropout(dropout), getattr(F, activation)

    def forward(self, x: Tensor) -> Tensor:
        """Say it in one line."""
        return self.linear2(
            F.dropout(self.activation(self.linear1(x)), self.dropout.p, self.training)
        )


class PositionwiseFeedForward(nn.Module):
    """Be the Annotated Transformer's: a core without a choice of activation."""

    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        """Project up, bend, drop, project down."""
        return self.w_2(self.dropout(self.w_1(x).relu()))


class MLP(nn.Module):
    """Take a config as nanoGPT does, with the paper's activation; dropout comes last."""

    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, config.d_ff)
        self.c_proj = nn.Linear(config.d_ff, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        """Write one step a line."""
        x = self.c_fc(x)
        x = F.relu(x)
        x = self.c_proj(x)
        return self.dropout(x)


class PositionWiseFFN(nn.Module):
    """Be d2l's: other names of the sizes, and no dropout."""

    def __init__(self, ffn_num_hiddens, ffn_num_input):
        super().__init__()
        self.dense1 = nn.Linear(ffn_num_input, ffn_num_hiddens)
        self.relu = nn.ReLU()
        self.dense2 = nn.Linear(ffn_num_hiddens, ffn_num_input)

    def forward(self, X):
        """Say it in one line."""
        return self.dense2(self.relu(self.dense1(X)))


ANSWERS = {"FeedForward": (ByFunctions, PositionwiseFeedForward, MLP, PositionWiseFFN)}
