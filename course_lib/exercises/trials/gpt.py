"""What is asked of chapter 18: attention with one product, and groups of parameters."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import (
    D_K,
    B,
    H,
    T,
    by_name,
    filled,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
    value_trial,
)
from course_lib.kv_cache import KVCache

D_MODEL = H * D_K
PLAIN = dict(d_model=D_MODEL, num_heads=H)
X = normal("fused x", B, T, D_MODEL)
OTHER_X = torch.cat([X[:, :2], X[:, 2:] + 3], dim=1)
FUTURE = "A later token must not change what stands before it, in training and in eval mode."
CACHED = "With a cache the new tokens come alone, and attend to those that were read before."
TORCHS = {
    F.multi_head_attention_forward: "This calls torch's own attention layer. Write the attention "
    "out; the fused kernel F.scaled_dot_product_attention is welcome inside."
}


def sees_later(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Change what comes later, and compare the first two answers."""
    module, found = filled(candidate(**PLAIN)), {}
    for mode, training in (("in training", True), ("in eval mode", False)):
        module.train(training)
        one, other = (module(x.clone())[:, :2] for x in (X, OTHER_X))
        found[f"a later token is seen {mode}"] = not torch.allclose(one, other, atol=1e-4)
    return found


def in_three_parts(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Hand the first two tokens over, then the others, the last one alone, with a cache."""
    module, kept = filled(candidate(**PLAIN)).eval(), KVCache(1, T).layers[0].self_attn
    with torch.no_grad():
        said = [module(part, cache=kept) for part in X.split((2, T - 3, 1), 1)]
    return {"with a cache": torch.cat(said, dim=1)}


def dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Look for chance in eval mode, and at what is left when everything is dropped."""
    still = filled(candidate(**PLAIN, dropout=0.5)).eval()
    with torch.no_grad():
        one, other = (still(X.clone()) for _ in range(2))
        left = filled(candidate(**PLAIN, dropout=1.0)).train()(X.clone())
    return {"random in eval mode": not torch.equal(one, other), "left of it": left}


def projected(candidate: Callable) -> dict[str, Any]:
    """Look at queries, keys and values, and put heads together again."""
    layer = filled(candidate(**PLAIN)).eval()
    with torch.no_grad():
        parts = dict(zip(("queries", "keys", "values"), layer.project(X.clone()), strict=True))
        return parts | {"merge": layer.merge(normal("heads", B, H, T, D_K))}


def one_token_dropped(candidate: Callable) -> dict[str, str]:
    """Drop half of the only weight that there is."""
    layer = candidate(**PLAIN, dropout=0.5).train()
    named = by_name(layer)
    with torch.no_grad():
        for parameter in named.values():
            parameter.zero_()
        named["w_qkv.weight"][-D_MODEL:] = named["w_o.weight"][:] = torch.eye(D_MODEL)
        one = normal("one token", 8, 1, D_MODEL)
        kept = (layer(one.clone()) / one).round() + 0.0
    return {"what comes out is 0 or doubled": str(kept.unique().tolist())}


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
            "causal": (value_trial("a later token", sees_later, says=FUTURE),),
        },
        hints=(
            "`self.w_qkv(x)` has 3 · d_model columns. In which order must they be cut: into three, "
            "into heads, into the numbers of a head? Then the heads go in front of the tokens.",
            "`unflatten(-1, (3, num_heads, -1))` cuts, `permute(2, 0, 3, 1, 4)` turns (B, T, 3, H, "
            "d_k) into (3, B, H, T, d_k). `merge` undoes the split: `transpose(1, 2).flatten(2)`.",
            "`F.scaled_dot_product_attention(q, k, v, dropout_p=…, is_causal=True)`, where "
            "dropout_p is `self.dropout if self.training else 0.0`.",
        ),
        shortcuts=TORCHS,
        extras={
            "project and merge": (
                value_trial(
                    "project and merge",
                    projected,
                    kind="equality",
                    says="Of the product's columns the first third are queries, head by head, "
                    "then keys, then values; `merge` joins the heads, and mixes them.",
                ),
            ),
            "KV cache": (value_trial("a cache", in_three_parts, kind="equality", says=CACHED),),
            "dropout": (
                value_trial(
                    "dropout",
                    dropped,
                    kind="train and eval",
                    says="Dropout acts in training only, on the attention weights and on nothing "
                    "else.",
                ),
                value_trial(
                    "dropout=0.5 in training",
                    one_token_dropped,
                    kind="train and eval",
                    says="Dropout acts on the attention weights, once, and doubles what is left.",
                ),
            ),
            "names": (names_trial(PLAIN),),
        },
    ),
)
