"""Reference formulas, with loops in place of matrix multiplications."""

import math
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm
from course_lib.multi_head import MultiHeadAttention


def encoding_by_loops(length: int, d_model: int) -> Tensor:
    """Compute the formula of §3.5 number by number."""
    rows = [
        [
            (math.cos if column % 2 else math.sin)(
                position / 10000 ** ((column - column % 2) / d_model)  # a pair shares a frequency
            )
            for column in range(d_model)
        ]
        for position in range(length)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def attention_by_loops(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attend one query at a time, to the keys that it may see, without -inf or broadcasting."""
    *leading, target_len, d_k = query.shape
    visible = torch.ones(*leading, target_len, key.size(-2), dtype=torch.bool)
    if mask is not None:
        visible = visible & mask
    outputs, weights = [], []
    for index in product(*map(range, (*leading, target_len))):
        *batch, _ = index
        seen = [s for s in range(key.size(-2)) if visible[*index, s]]
        row, output = key.new_zeros(key.size(-2)), value.new_zeros(value.size(-1))
        scores = [(query[*index] * key[*batch, s]).sum() / math.sqrt(d_k) for s in seen]
        total = sum(score.exp() for score in scores)
        for s, score in zip(seen, scores, strict=True):
            row = row + F.one_hot(torch.tensor(s), row.numel()) * score.exp() / total
            output = output + value[*batch, s] * score.exp() / total
        outputs.append(output)
        weights.append(row)
    shape = (*leading, target_len, -1)
    return torch.stack(outputs).view(shape), torch.stack(weights).view(shape)


def multi_head_by_loops(
    layer: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute each head from its slices of the projections, and add up the heads' outputs."""
    d_k, d_v = (w.out_features // layer.num_heads for w in (layer.w_q, layer.w_v))
    output, weights = layer.w_o.bias, []
    for head in range(layer.num_heads):
        keys, values = (slice(head * width, (head + 1) * width) for width in (d_k, d_v))
        q = query @ layer.w_q.weight[keys].T + layer.w_q.bias[keys]  # (B, T, d_k)
        k = key @ layer.w_k.weight[keys].T + layer.w_k.bias[keys]  # (B, S, d_k)
        v = value @ layer.w_v.weight[values].T + layer.w_v.bias[values]  # (B, S, d_v)
        shape = (query.size(0), layer.num_heads, query.size(1), key.size(1))
        allowed = None if mask is None else mask.expand(shape)[:, head]  # (B, T, S)
        answer, row = attention_by_loops(q, k, v, allowed)
        output = output + answer @ layer.w_o.weight[:, values].T  # (B, T, d_model)
        weights.append(row)
    return output, torch.stack(weights, dim=1)


def normed(norm: nn.Module, x: Tensor) -> Tensor:
    return F.layer_norm(x, (x.size(-1),), norm.weight, norm.bias, eps=1e-5)


def add_norm_by_hand(add_norm: AddNorm, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    """Compute LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)) in pre-norm."""
    if add_norm.norm_first:
        return x + sublayer(normed(add_norm.norm, x))
    return normed(add_norm.norm, x + sublayer(x))
