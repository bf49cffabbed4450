"""Right answers of chapter 21, in other styles."""

from math import prod

import torch
from torch import nn

from course_lib.flops import attention_flops
from course_lib.multi_head import MultiHeadAttention
from course_lib.transformer import Transformer


def operations_by_factors(length, d_model, *, kernel_size=3):
    """List what is multiplied, and multiply it."""
    n, d, k = length, d_model, kernel_size
    for size in (n, d, k):
        if size <= 0:
            raise ValueError(f"{size} is too small")
    factors = {
        "self-attention": [n, n, d],
        "recurrent": [n, d, d],
        "convolution": [k, n, d, d],
    }
    return {name: prod(sizes) for name, sizes in factors.items()}


def operations_by_tables(length: int, d_model: int, *, kernel_size: int = 3):
    """Lay everything that is multiplied out in a table without numbers, and count its entries."""
    if length < 1 or d_model < 1 or kernel_size < 1:
        raise ValueError("sizes count from 1")
    x, matrix = (torch.empty(rows, d_model, device="meta") for rows in (length, d_model))
    steps = torch.einsum("nd,ed->ned", x, matrix)
    return {
        "self-attention": torch.einsum("nd,md->nmd", x, x).numel(),
        "recurrent": steps.numel(),
        "convolution": steps.expand(kernel_size, -1, -1, -1).numel(),
    }


def operations_plainly(n, d):
    """Hold the core, with the table's letters."""
    return {"self-attention": n * n * d, "recurrent": n * d * d, "convolution": 3 * n * d * d}


def attention_in_one_formula(d_model, num_heads, tgt_len, src_len, *, d_k=None, d_v=None):
    """Put the factors that all share in front."""
    share = d_model // num_heads
    width = (share if d_k is None else d_k) + (share if d_v is None else d_v)
    return 2 * num_heads * width * (d_model * (tgt_len + src_len) + tgt_len * src_len)


def attention_by_shapes(d_model, num_heads, tgt_len, src_len, *, d_k=None, d_v=None) -> float:
    """Write down six products, heads side by side where they can be."""
    d_k, d_v = d_k or d_model / num_heads, d_v or d_model / num_heads
    total = 0.0
    for rows, inner, columns, times in (
        (tgt_len, d_model, num_heads * d_k, 1),
        (src_len, d_model, num_heads * d_k, 1),
        (src_len, d_model, num_heads * d_v, 1),
        (tgt_len, d_k, src_len, num_heads),
        (tgt_len, src_len, d_v, num_heads),
        (tgt_len, num_heads * d_v, d_model, 1),
    ):
        total += 2.0 * times * rows * inner * columns
    return total


def attention_by_weights(d_model, num_heads, tgt_len, src_len, *, d_k=None, d_v=None):
    """Build the layer without numbers, and count its weights."""
    with torch.device("meta"):
        layer = MultiHeadAttention(d_model, num_heads, d_k=d_k, d_v=d_v)
    weights = {name: getattr(layer, name).weight.numel() for name in ("w_q", "w_k", "w_v", "w_o")}
    multiplied = tgt_len * (weights["w_q"] + weights["w_o"])
    multiplied += src_len * (weights["w_k"] + weights["w_v"])
    multiplied += tgt_len * src_len * (layer.w_q.out_features + layer.w_v.out_features)
    return multiplied + multiplied  # as many additions


def model_by_layers(config, src_len, tgt_len):
    """Go through the layers one after the other."""
    lift = 2 * config.d_model * config.d_ff

    def attended(target, source):
        """Count an attention, lengths the other way round: it takes the same."""
        widths = {"d_k": config.d_k, "d_v": config.d_v}
        return attention_flops(config.d_model, config.num_heads, source, target, **widths)

    flops = 0
    for _ in range(config.num_encoder_layers):
        flops += attended(src_len, src_len) + 2 * src_len * lift
    for _ in range(config.num_decoder_layers):
        flops += attended(tgt_len, tgt_len) + attended(tgt_len, src_len) + 2 * tgt_len * lift
    return flops + 2 * config.d_model * config.tgt_vocab_size * tgt_len


def model_by_weights(config, src_len, tgt_len):
    """Build the model without numbers: each weight multiplies at every position."""
    with torch.device("meta"):
        model = Transformer(config)
    total = 0
    for name, part in model.named_modules():
        at_source = name.startswith("encoder") or name.endswith(
            ("cross_attn.w_k", "cross_attn.w_v")
        )
        if isinstance(part, nn.Linear):
            total += part.weight.numel() * (src_len if at_source else tgt_len)
        elif isinstance(part, MultiHeadAttention):
            target = src_len if at_source else tgt_len
            source = tgt_len if name.endswith("self_attn") and not at_source else src_len
            total += target * source * (part.w_q.out_features + part.w_v.out_features)
    return torch.tensor(2 * total)


def model_plainly(cfg, S, T):
    """Hold the core: every layer as multiples of d_model, heads as wide as they are by default."""
    d, ff = cfg.d_model, 2 * cfg.d_ff
    encoder = 2 * S * d * (4 * d + ff) + 4 * S * S * d
    decoder = 2 * T * d * (6 * d + ff) + 4 * S * d * d + 4 * T * d * (T + S)
    total = cfg.num_encoder_layers * encoder + cfg.num_decoder_layers * decoder
    return total + 2 * T * d * cfg.tgt_vocab_size


ANSWERS = {
    "layer_operations": (operations_by_factors, operations_by_tables, operations_plainly),
    "attention_flops": (attention_in_one_formula, attention_by_shapes, attention_by_weights),
    "forward_flops": (model_by_layers, model_by_weights, model_plainly),
}
