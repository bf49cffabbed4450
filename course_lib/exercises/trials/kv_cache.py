"""What is asked of chapter 12: new queries ask old keys; the layer and the decoder with a cache."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import (
    D_V,
    B,
    H,
    S,
    T,
    Trial,
    filled,
    function_trial,
    normal,
)
from course_lib.exercises.trials.decoder_cache import EXERCISES as WHOLE
from course_lib.exercises.trials.layer_cache import D_MODEL
from course_lib.exercises.trials.layer_cache import EXERCISES as LAYER
from course_lib.exercises.trials.layer_formulas import TORCHS
from course_lib.multi_head import MultiHeadAttention


def attention(d_model: int, heads: int, d_k: int, d_v: int, training: bool) -> nn.Module:
    """Build attention filled with known numbers; in training mode it would drop weights."""
    layer = MultiHeadAttention(d_model, heads, d_k=d_k, d_v=d_v, dropout=0.5)
    return filled(layer).train(training)


def asked(
    layer: nn.Module, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Attend by Einstein sums; a query that may look at nothing gets zeros."""
    q = (x @ layer.w_q.weight.T + layer.w_q.bias).unflatten(-1, (layer.num_heads, -1))
    scores = torch.einsum("bthd,bhsd->bhts", q, keys) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    blend = torch.einsum("bhts,bhsd->bthd", scores.softmax(dim=-1).nan_to_num(0.0), values)
    return blend.flatten(2) @ layer.w_o.weight.T + layer.w_o.bias


def attend_case(
    label: str,
    sizes: Sequence[int] = (B, H, T, S, 8, D_V, D_MODEL),
    masked: bool = True,
    training: bool = False,
    **more: Any,
) -> Trial:
    """Compare what comes out with the formula: output, and gradients of what goes in."""
    batch, heads, queries, kept, d_k, d_v, d_model = sizes
    mask = torch.ones(batch, 1, queries, kept).tril(kept - queries).bool()
    mask[-1, :, :, 0] = False
    if queries > 2:
        mask[0, :, 2] = False  # one that may look at nothing
    inputs = {
        "attention": attention(d_model, heads, d_k, d_v, training),
        "x": normal("x", batch, queries, d_model),
        "keys": normal("keys", batch, heads, kept, d_k),
        "values": normal("values", batch, heads, kept, d_v),
    }
    return function_trial(label, inputs | ({"mask": mask} if masked else {}), asked, **more)


EXERCISES = (
    Exercise(
        "attend",
        "kv_cache",
        10,
        (
            attend_case("sizes that all differ and a mask"),
            attend_case("no mask", masked=False),
            attend_case("one new query", (B, H, 1, S, 8, D_V, D_MODEL)),
            attend_case("sizes that are all equal", (4, 4, 4, 4, 4, 4, 16)),
            attend_case(
                "attention in training mode",
                training=True,
                stage="train and eval",
                says="Nothing is dropped here, in either mode.",
            ),
        ),
        (
            "Three lines: the queries, the blend of the values, and the mixing by `w_o`.",
            "`split_heads(attention.w_q(x), attention.num_heads)` are the queries. The keys and "
            "values are split already: `F.scaled_dot_product_attention(q, keys, values, mask)`.",
            "Join the heads as chapter 02 does: `heads.transpose(-3, -2).flatten(-2)`; `w_o` next.",
        ),
        TORCHS,
    ),
    *LAYER,
    *WHOLE,
)
