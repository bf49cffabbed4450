"""What is asked of chapter 19: attention with one product, and groups of parameters."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import keeps_still, sees_later
from course_lib.exercises.trial import (
    D_K,
    B,
    H,
    T,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

D_MODEL = H * D_K
PLAIN = dict(d_model=D_MODEL, num_heads=H)
X = normal("fused x", B, T, D_MODEL)
OTHER_X = torch.cat([X[:, :2], X[:, 2:] + 3], dim=1)
TORCHS = {
    F.multi_head_attention_forward: "This calls torch's own attention layer. Write the attention "
    "out; the fused kernel F.scaled_dot_product_attention is welcome inside."
}


@looks(
    "a later token",
    "A later token must not change what stands before it, in training and in eval mode.",
)
def later(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Change what comes later, and compare the first two answers."""
    return sees_later(filled(candidate(**PLAIN)), 2, (X.clone(),), (OTHER_X.clone(),))


@looks(
    "project",
    "Of the columns of `w_qkv(x)` the first third are queries, head by head; the keys come next, "
    "and the values last.",
    kind="equality",
)
def projected(candidate: Callable) -> dict[str, Any]:
    """Compare queries, keys and values."""
    layer = filled(candidate(**PLAIN)).eval()
    with torch.no_grad():
        return dict(zip(("queries", "keys", "values"), layer.project(X.clone()), strict=True))


EXERCISES = (
    Exercise(
        "CausalSelfAttention",
        "gpt",
        25,
        core={
            "parameters": (
                parameters_trial(
                    PLAIN,
                    "Two nn.Linear layers with biases: w_qkv, three times as wide as its input, "
                    "and w_o.",
                ),
            ),
            "attention": (
                module_trial("sizes that all differ", PLAIN, {"x": X}),
                module_trial(
                    "sizes that are all equal",
                    dict(d_model=16, num_heads=4),
                    {"x": normal("even", 4, 4, 16)},
                ),
                module_trial("one token", PLAIN, {"x": X[:, :1]}),
            ),
            "causal": (later,),
        },
        hints=(
            "`self.w_qkv(x)` has 3 · d_model columns. In which order must they be cut: into three, "
            "into heads, into the numbers of a head? Then the heads go in front of the tokens.",
            "`unflatten(-1, (3, num_heads, -1))` cuts, `permute(2, 0, 3, 1, 4)` turns (B, T, 3, H, "
            "d_k) into (3, B, H, T, d_k). Afterwards `join_heads` joins the heads again.",
            "`F.scaled_dot_product_attention(q, k, v, dropout_p=…, is_causal=True)`, where "
            "dropout_p is `self.dropout if self.training else 0.0`.",
        ),
        shortcuts=TORCHS,
        extras={
            "project": (projected,),
            "dropout": (
                keeps_still(PLAIN, {"x": X}, dropout=0.5),
                module_trial(
                    "dropout=1.0 in training",
                    PLAIN | {"dropout": 1.0},
                    {"x": X},
                    training=True,
                    kind="train and eval",
                    says="Dropout acts on the attention weights, and on nothing else.",
                ),
            ),
            "names": (names_trial(PLAIN),),
        },
    ),
)
