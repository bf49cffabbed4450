"""What is asked of chapter 02: every head is torch's attention on its own slice."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import (
    D_K,
    D_V,
    B,
    H,
    S,
    T,
    Trial,
    filled,
    function_trial,
    module_trial,
    normal,
    parameters_trial,
    value_trial,
)
from course_lib.multi_head import MultiHeadAttention

D_MODEL = H * D_K
PLAIN = dict(d_model=D_MODEL, num_heads=H)
WIDE = PLAIN | dict(d_k=5, d_v=D_V, bias=False)
EVEN = dict(d_model=16, num_heads=4)  # 4 heads of width 4: four tokens in four sentences
TOLD = dict(need_weights=True)
NAMES = ("output", "weights")
ITSELF = (
    "This calls torch's own multi-head attention, the very thing you are building here. The fused "
    "kernel F.scaled_dot_product_attention is welcome inside."
)


def head_by_head(num_heads: int) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Make the reference: one head after another, each on its own columns."""

    def reference(named: dict[str, Tensor], query, key, value, mask=None, need_weights=False):
        """Add up what the heads say through their columns of w_o."""
        none = torch.zeros(1)
        output, maps = named.get("w_o.bias", none), []
        for i in range(num_heads):
            q, k, v = (
                F.linear(x, *(named.get(f"{w}.{p}", none.expand(num_heads)).chunk(num_heads)[i]
                              for p in ("weight", "bias")))
                for w, x in (("w_q", query), ("w_k", key), ("w_v", value))
            )  # fmt: skip
            one = (
                mask[:, min(i, mask.size(1) - 1)] if mask is not None and mask.dim() == 4 else mask
            )
            blend = F.scaled_dot_product_attention(q, k, v, one)
            rows = torch.eye(k.size(1)).expand(k.size(0), -1, -1)
            maps.append(F.scaled_dot_product_attention(q, k, rows, one))
            output = output + blend @ named["w_o.weight"].chunk(num_heads, dim=1)[i].T
        return output, torch.stack(maps, dim=1) if need_weights else None

    return reference


def inputs(batch: int, lengths=(T, S), widths=(D_MODEL,) * 3, mask: Tensor | None = None) -> dict:
    """Make queries, keys and values, and a mask if there is one."""
    sizes = (lengths[0], lengths[1], lengths[1])
    named = {
        name: normal(f"many {name}", batch, length, width)
        for name, length, width in zip(("query", "key", "value"), sizes, widths, strict=True)
    }
    return named if mask is None else named | {"mask": mask}


def some_mask(*shape: int) -> Tensor:
    """Make a mask that is no triangle and blocks no row."""
    mask = normal("many masks", *shape) > 0
    mask[..., 1] = True
    return mask


def tried(label: str, build: dict, given: dict, says: str = "", **options: Any) -> Trial:
    """Compare output, weights and gradients with the reference."""
    reference = head_by_head(build["num_heads"])
    return module_trial(
        label, MultiHeadAttention, build, given, reference, NAMES, options=options, says=says
    )


def first_of_many(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Hide the future, change it, and look at the answer to the first word."""
    layer = filled(candidate(**PLAIN)).eval()
    past = torch.ones(T, T, dtype=torch.bool).tril()
    x = normal("first", B, T, D_MODEL)
    y = torch.cat([x[:, :1], -x[:, 1:]], dim=1)
    before, after = (layer(z, z, z, past)[0][:, 0] for z in (x, y))
    return {"the first answer hears later words": not torch.allclose(before, after, atol=1e-5)}


def wholly_dropped(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Drop every weight: what is left is the bias of w_o."""
    layer = filled(candidate(**PLAIN, dropout=1.0)).train()
    output = layer(*inputs(B).values())[0]
    return {"output without its bias": (output - layer.w_o.bias).detach()}


def half_dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Drop half of the weights where there is one key: a head says twice its value, or nothing."""
    layer = candidate(**PLAIN, dropout=0.5).train()
    with torch.no_grad():
        for projection in (layer.w_v, layer.w_o):
            projection.weight.copy_(torch.eye(D_MODEL))
            projection.bias.zero_()
    one = normal("one key", 8, 1, D_MODEL)
    said = {
        name: layer(one, one, one, **o)[0] / one for name, o in {"plain": {}, "told": TOLD}.items()
    }
    return {
        f"what comes out is 0 or doubled ({name})": str(
            (x.detach().round() + 0.0).unique().tolist()
        )
        for name, x in said.items()
    }


def while_predicting(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Call a layer with dropout twice in eval mode."""
    layer = filled(candidate(**PLAIN, dropout=0.5)).eval()
    one, other = (layer(*inputs(B).values())[0] for _ in range(2))
    return {"two calls differ": not torch.equal(one, other)}


FOUR = "Four nn.Linear layers: w_q, w_k, w_v and w_o, each for all heads at once."
SPLIT = "Head i holds columns i·width … (i+1)·width of every vector."

EXERCISES = (
    Exercise(
        "split_heads",
        "multi_head",
        10,
        (
            function_trial(
                "a batch of vectors",
                {"x": normal("split", B, T, H * D_K), "num_heads": H},
                lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=-3),
                says=SPLIT,
            ),
            function_trial(
                "as many tokens as heads",
                {"x": normal("even split", 3, 3, 9), "num_heads": 3},
                lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=-3),
                says=SPLIT,
            ),
            function_trial(
                "one sentence, no batch",
                {"x": normal("one split", T, H * D_K), "num_heads": H},
                lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=-3),
                says=SPLIT,
            ),
        ),
        (
            "Cut the last axis in two, heads before width; then bring the heads in front of the "
            "tokens.",
            "`x.unflatten(-1, (num_heads, -1))` cuts; `transpose(-3, -2)` exchanges tokens "
            "and heads.",
        ),
    ),
    Exercise(
        "MultiHeadAttention",
        "multi_head",
        40,
        (
            parameters_trial(MultiHeadAttention, PLAIN, FOUR),
            parameters_trial(MultiHeadAttention, WIDE, FOUR + " d_k, d_v and bias count."),
            tried("sizes that all differ", PLAIN, inputs(B)),
            tried("sizes that are all equal", EVEN, inputs(4, (4, 4), (16,) * 3), **TOLD),
            tried("need_weights=True", PLAIN, inputs(B), **TOLD),
            tried("head widths of its own", WIDE, inputs(B), **TOLD),
            tried("one head", dict(d_model=6, num_heads=1), inputs(B, widths=(6,) * 3), **TOLD),
            value_trial(
                "a causal mask",
                first_of_many,
                {"the first answer hears later words": False},
                says="Each answer must come from its own word's heads, joined in their order.",
            ),
            tried("a mask for every query", PLAIN, inputs(B, mask=some_mask(T, S))),
            tried("a mask and need_weights", PLAIN, inputs(B, mask=some_mask(T, S)), **TOLD),
            tried("a mask for every head", PLAIN, inputs(B, mask=some_mask(B, H, T, S)), **TOLD),
            tried("a padding mask (B, 1, 1, S)", PLAIN, inputs(B, mask=some_mask(B, 1, 1, S))),
            value_trial(
                "dropout=0.5 in eval mode",
                while_predicting,
                {"two calls differ": False},
                stage="train and eval",
                says="Dropout acts in training only: ask self.training.",
            ),
            value_trial(
                "dropout=1.0 in training",
                wholly_dropped,
                {"output without its bias": torch.zeros(B, T, D_MODEL)},
                stage="train and eval",
                says="Dropout acts on the attention weights: without them only w_o's bias is left.",
            ),
            value_trial(
                "dropout=0.5 in training",
                half_dropped,
                {
                    "what comes out is 0 or doubled (plain)": "[0.0, 2.0]",
                    "what comes out is 0 or doubled (told)": "[0.0, 2.0]",
                },
                stage="train and eval",
                says="Dropout acts on the weights of every head, and scales what is left.",
            ),
        ),
        (
            "Project first, then split: `split_heads(self.w_q(query), self.num_heads)`, and the "
            "same for keys and values. Every head then does what chapter 01 built, all at once.",
            "Before `w_o`, undo the split: exchange heads and tokens back, then `flatten(-2)`.",
            "With `need_weights`, `scaled_dot_product_attention` of chapter 01 gives both; else "
            "`F.scaled_dot_product_attention(q, k, v, mask, dropout_p)` and `None`. "
            "`dropout_p` is 0 unless `self.training`.",
        ),
        {F.multi_head_attention_forward: ITSELF, torch._native_multi_head_attention: ITSELF},
    ),
)
