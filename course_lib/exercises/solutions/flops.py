"""Right answers of chapter 24, in other styles."""

import torch

from course_lib.multi_head import MultiHeadAttention


def attention_in_one_formula(d_model, num_heads, tgt_len, src_len, *, d_k=None, d_v=None):
    """Put the factors that all share in front."""
    share = d_model // num_heads
    width = (share if d_k is None else d_k) + (share if d_v is None else d_v)
    return 2 * num_heads * width * (d_model * (tgt_len + src_len) + tgt_len * src_len)


def attention_by_weights(d_model, num_heads, tgt_len, src_len, *, d_k=None, d_v=None):
    """Build the layer without numbers, and count its weights."""
    with torch.device("meta"):
        layer = MultiHeadAttention(d_model, num_heads, d_k=d_k, d_v=d_v)
    weights = {name: getattr(layer, name).weight.numel() for name in ("w_q", "w_k", "w_v", "w_o")}
    multiplied = tgt_len * (weights["w_q"] + weights["w_o"])
    multiplied += src_len * (weights["w_k"] + weights["w_v"])
    multiplied += tgt_len * src_len * (layer.w_q.out_features + layer.w_v.out_features)
    return multiplied + multiplied  # as many additions


ANSWERS = {"attention_flops": (attention_in_one_formula, attention_by_weights)}
