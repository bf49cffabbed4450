"""Count what tables 1 to 3 of the paper state: parameters, training cost, work of one layer."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from course_lib.flops import forward_flops, layer_operations
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import LearnedPositionalEmbedding
from course_lib.transformer import Transformer, TransformerConfig

BASE = TransformerConfig(src_vocab_size=37_000, tgt_vocab_size=37_000)
BIG = replace(BASE, d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)
ROWS: dict[str, tuple[TransformerConfig, int | None]] = {  # and the millions that are printed
    "base": (BASE, 65),
    "(A) h = 1": (replace(BASE, num_heads=1), None),
    "(A) h = 4": (replace(BASE, num_heads=4), None),
    "(A) h = 16": (replace(BASE, num_heads=16), None),
    "(A) h = 32": (replace(BASE, num_heads=32), None),
    "(B) d_k = 16": (replace(BASE, d_k=16), 58),
    "(B) d_k = 32": (replace(BASE, d_k=32), 60),
    "(C) N = 2": (replace(BASE, num_encoder_layers=2, num_decoder_layers=2), 36),
    "(C) N = 4": (replace(BASE, num_encoder_layers=4, num_decoder_layers=4), 50),
    "(C) N = 8": (replace(BASE, num_encoder_layers=8, num_decoder_layers=8), 80),
    "(C) d_model = 256": (replace(BASE, d_model=256), 28),
    "(C) d_model = 1024": (replace(BASE, d_model=1024), 168),
    "(C) d_ff = 1024": (replace(BASE, d_ff=1024), 53),
    "(C) d_ff = 4096": (replace(BASE, d_ff=4096), 90),
    "(D) P_drop = 0.0": (replace(BASE, dropout=0.0), None),
    "(D) P_drop = 0.2": (replace(BASE, dropout=0.2), None),
    "(D) label smoothing 0.0": (BASE, None),
    "(D) label smoothing 0.2": (BASE, None),
    "(E) learned positions": (BASE, None),
    "big": (BIG, 213),
}
P100 = 9.5e12  # the paper's estimate of the sustained operations of one GPU in a second
TRAININGS = {  # steps, hours, and the cost that table 2 prints
    "base": (BASE, 100_000, 12, 3.3e18),
    "big": (BIG, 300_000, 3.5 * 24, 2.3e19),
}
TOKENS = 25_000  # of the source in a batch, and as many of the target (§5.1)


def build(name: str) -> nn.Module:
    """Build the model of a row of table 3, shapes without numbers."""
    config, _ = ROWS[name]
    with torch.device("meta"):
        model = Transformer(config)
        if name.startswith("(E)"):
            model.positions = LearnedPositionalEmbedding(config.d_model, config.max_len)
    return model


def parameters(name: str) -> int:
    """Count the parameters of a row of table 3; a shared matrix counts once."""
    return sum(parameter.numel() for parameter in build(name).parameters())


def vocabularies(name: str) -> range:
    """Return all vocabulary sizes with which a row rounds to the printed millions."""
    config, millions = ROWS[name]
    layers = parameters(name) - config.tgt_vocab_size * config.d_model  # one matrix, three uses
    ends = (ceil(((millions + half) * 1e6 - layers) / config.d_model) for half in (-0.5, 0.5))
    return range(*ends)


def common_vocabularies() -> range:
    """Return the sizes with which every row but the big model rounds to what is printed."""
    found = [vocabularies(name) for name, (_, millions) in ROWS.items() if millions]
    *small, _ = found  # the big model is the last
    return range(max(each.start for each in small), min(each.stop for each in small))


def training_cost(name: str, length: int = 25) -> dict[str, float]:
    """Estimate the operations of a whole training in four ways.

    Args:
        name: ``"base"`` or ``"big"``.
        length: Tokens of every sentence, which only *counted* depends on.
    """
    config, steps, hours, _ = TRAININGS[name]
    total = parameters(name)
    return {
        "GPU-seconds": 8 * hours * 3600 * P100,
        "every token, every parameter": 6 * total * 2 * TOKENS * steps,
        "every token, one stack": 6 * total * TOKENS * steps,
        "counted": 3 * forward_flops(config, length, length) * TOKENS / length * steps,
    }


def multiplications(run: Callable[[], object]) -> int:
    """Count the multiplications of all matrix products in a run, as torch counts them."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2


def layer_table(length: int, d_model: int = 512) -> dict[str, tuple[int, int]]:
    """Return of each kind of layer what table 1 counts, and what a layer of torch multiplies."""
    with torch.device("meta"):
        x = torch.empty(1, length, d_model)  # (B, L, d_model)
        attention = MultiHeadAttention(d_model, 8)
        recurrent = nn.RNNCell(d_model, d_model)
        convolution = nn.Conv1d(d_model, d_model, 3, padding=1)
        counted = {
            "self-attention": multiplications(lambda: attention(x, x, x, need_weights=True)),
            "recurrent": length * multiplications(lambda: recurrent(x[:, 0])),  # all steps alike
            "convolution": multiplications(lambda: convolution(x.transpose(1, 2))),
        }
        printed = layer_operations(length, d_model)
        return {name: (printed[name], counted[name]) for name in counted}
