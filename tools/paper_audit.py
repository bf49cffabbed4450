"""Estimates of the training costs in table 2 of the paper, in floating-point operations."""

from dataclasses import replace

import torch

from course_lib.flops import forward_flops
from course_lib.transformer import Transformer, TransformerConfig

BASE = TransformerConfig(src_vocab_size=37_000, tgt_vocab_size=37_000)
BIG = replace(BASE, d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)
P100 = 9.5e12  # operations that one GPU sustains per second, according to the paper
TRAININGS = {  # the model, its steps and hours, and the cost in table 2
    "base": (BASE, 100_000, 12, 3.3e18),
    "big": (BIG, 300_000, 3.5 * 24, 2.3e19),
}
TOKENS = 25_000  # source tokens in a batch, which has the same number of target tokens (§5.1)
LENGTH = 25  # tokens in every sentence; only *counted* depends on this


def training_cost(name: str) -> dict[str, float]:
    """Estimate the operations in the ``"base"`` or ``"big"`` training run in four ways."""
    config, steps, hours, _ = TRAININGS[name]
    with torch.device("meta"):
        total = sum(parameter.numel() for parameter in Transformer(config).parameters())
    return {
        "GPU-seconds": 8 * hours * 3600 * P100,
        "every token, every parameter": 6 * total * 2 * TOKENS * steps,
        "every token, one stack": 6 * total * TOKENS * steps,
        "counted": 3 * forward_flops(config, LENGTH, LENGTH) * TOKENS / LENGTH * steps,
    }
