"""What is asked of chapter 18's attention: torch's own, with one product and no future."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    D_K,
    B,
    H,
    T,
    Trial,
    by_name,
    filled,
    module_trial,
    normal,
    parameters_trial,
    refuses,
    value_trial,
)
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trials.decoder_layer import asked, by_place
from course_lib.exercises.trials.gpt_formulas import D_MODEL
from course_lib.exercises.trials.layer_formulas import TORCHS
from course_lib.gpt import CausalSelfAttention

PLAIN = dict(d_model=D_MODEL, num_heads=H)
X = normal("fused x", B, T, D_MODEL)
NAMES = ("queries", "keys", "values")
FUTURE = "A later token must not change what stands before it, while training and afterwards."


def torchs(heads: int) -> Callable[..., Tensor]:
    """Make a reference: torch's attention, whose three matrices stand in one block, too."""

    def reference(p: dict[str, Tensor], x: Tensor) -> Tensor:
        """Let it compute with parameters of ours."""
        theirs = {f"in_proj_{kind}": p[f"w_qkv.{kind}"] for kind in ("weight", "bias")}
        theirs |= {f"out_proj.{kind}": p[f"w_o.{kind}"] for kind in ("weight", "bias")}
        layer = nn.MultiheadAttention(x.size(-1), heads, batch_first=True)
        blocked = torch.ones(x.size(1), x.size(1)).triu(1).bool()
        options = dict(attn_mask=blocked, need_weights=False)
        return functional_call(layer, theirs, (x, x, x), options)[0]

    return reference


def tried(label: str, build: dict, x: Tensor, **more: Any) -> Trial:
    """Compare output and gradients with torch's layer."""
    reference = torchs(build["num_heads"])
    case = module_trial(label, CausalSelfAttention, build, {"x": x}, reference, **more)
    return by_place(case, *build)


def projected(candidate: Callable) -> dict[str, Any]:
    """Look at queries, keys and values, and put heads together again."""
    layer = filled(candidate(*PLAIN.values())).eval()
    with torch.no_grad():
        parts = list(layer.project(X.clone()))
        shown = dict(zip(NAMES, parts, strict=False)) if len(parts) == 3 else {"parts": len(parts)}
        return shown | {"merge": layer.merge(normal("heads", B, H, T, D_K))}


def projected_wanted() -> dict[str, Any]:
    """Take rows of the matrix, three times H blocks of them."""
    p = by_name(filled(CausalSelfAttention(**PLAIN)))
    with torch.no_grad():
        every = X @ p["w_qkv.weight"].T + p["w_qkv.bias"]
        blocks = torch.stack(every.split(D_K, dim=-1), dim=1)  # (B, 3 · H, T, d_k)
        joined = torch.cat(normal("heads", B, H, T, D_K).unbind(1), dim=-1)
        shown = dict(zip(NAMES, blocks.split(H, dim=1), strict=True))
        return shown | {"merge": joined @ p["w_o.weight"].T + p["w_o.bias"]}


def leaks(candidate: Callable) -> dict[str, bool]:
    """Change the last tokens, and look whether the first ones notice."""
    layer, later = filled(candidate(*PLAIN.values())), X.clone()
    later[:, 2:] += 3
    found = {}
    for mode, training in (("while training", True), ("afterwards", False)):
        layer.train(training)
        plain, other = (asked(layer, {"x": x.clone()})[:, :2] for x in (X, later))
        found[f"a later token is heard {mode}"] = not torch.allclose(plain, other, atol=1e-4)
    return found


def steady(candidate: Callable) -> dict[str, bool]:
    """Ask twice in eval mode."""
    layer = filled(candidate(*PLAIN.values(), 0.5)).eval()
    with torch.no_grad():
        return {"both answers are the same": torch.equal(layer(X.clone()), layer(X.clone()))}


def dropped(candidate: Callable) -> dict[str, Any]:
    """Drop all weights, and half of the only one that there is."""
    silent = filled(candidate(*PLAIN.values(), 1.0)).train()
    layer = candidate(*PLAIN.values(), 0.5).train()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.w_qkv.weight[-D_MODEL:] = layer.w_o.weight[:] = torch.eye(D_MODEL)
        one = normal("one token", 8, 1, D_MODEL)
        shares = (layer(one.clone()) / one).round() + 0.0
        return {
            "output of weights that are all dropped": silent(X.clone()) - silent.w_o.bias,
            "what comes out is 0 or doubled": str(shares.unique().tolist()),
        }


def bad_sizes(candidate: Callable) -> dict[str, str]:
    """Ask for heads that cannot be."""
    return {"7 numbers for 3 heads": refuses(candidate, 7, 3)}


EXERCISES = (
    Exercise(
        "CausalSelfAttention",
        "gpt",
        25,
        (
            parameters_trial(
                CausalSelfAttention,
                PLAIN,
                "Two nn.Linear layers with biases: w_qkv, three times as wide as its input, and "
                "w_o.",
            ),
            tried("sizes that all differ", PLAIN, X),
            tried(
                "sizes that are all equal", dict(d_model=16, num_heads=4), normal("even", 4, 4, 16)
            ),
            tried("one token", PLAIN, X[:, :1]),
            tried("one head", dict(d_model=6, num_heads=1), normal("one head", B, T, 6)),
            Trial(
                "project and merge",
                lambda candidate: Outcome(projected(candidate)),
                lambda: Outcome(projected_wanted()),
                says="Of the product's columns the first third are queries, head by head, then "
                "keys, then values; `merge` puts heads abreast, and mixes them.",
            ),
            value_trial(
                "a later token",
                leaks,
                dict.fromkeys(
                    ("a later token is heard while training", "a later token is heard afterwards"),
                    False,
                ),
                says=FUTURE,
            ),
            value_trial(
                "sizes that do not fit",
                bad_sizes,
                {"7 numbers for 3 heads": "a ValueError"},
                says="`head_width(d_model, num_heads)` refuses heads that do not divide the width.",
            ),
            value_trial(
                "dropout=0.5 in eval mode",
                steady,
                {"both answers are the same": True},
                stage="train and eval",
                says="Dropout acts in training only: ask self.training.",
            ),
            value_trial(
                "dropout in training",
                dropped,
                {
                    "output of weights that are all dropped": torch.zeros(B, T, D_MODEL),
                    "what comes out is 0 or doubled": "[0.0, 2.0]",
                },
                stage="train and eval",
                says="Dropout acts on the attention weights, and on nothing else.",
            ),
        ),
        (
            "`self.w_qkv(x)` has 3 · d_model columns. In which order must they be cut: into three, "
            "into heads, into the numbers of a head? Then the heads go in front of the tokens.",
            "`unflatten(-1, (3, num_heads, -1))` cuts, `permute(2, 0, 3, 1, 4)` turns (B, T, 3, H, "
            "d_k) into (3, B, H, T, d_k). `merge` is the way back: `transpose(1, 2).flatten(2)`.",
            "`F.scaled_dot_product_attention(q, k, v, dropout_p=…, is_causal=True)`, where "
            "dropout_p is `self.dropout if self.training else 0.0`.",
        ),
        TORCHS,
    ),
)
