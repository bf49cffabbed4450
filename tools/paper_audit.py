"""Estimate what table 2 of the paper states: the operations of its two training runs."""

from dataclasses import replace

import torch

from course_lib.flops import forward_flops
from course_lib.transformer import Transformer, TransformerConfig

BASE = TransformerConfig(src_vocab_size=37_000, tgt_vocab_size=37_000)
BIG = replace(BASE, d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)
P100 = 9.5e12  # the paper's estimate of the sustained operations of one GPU in a second
TRAININGS = {  # steps, hours, and the cost that table 2 prints
    "base": (BASE, 100_000, 12, 3.3e18),
    "big": (BIG, 300_000, 3.5 * 24, 2.3e19),
}
TOKENS = 25_000  # of the source in a batch, and as many of the target (§5.1)
LENGTH = 25  # tokens of every sentence, which only *counted* depends on


def training_cost(name: str) -> dict[str, float]:
    """Estimate the operations of a whole training run, ``"base"`` or ``"big"``, in four ways."""
    config, steps, hours, _ = TRAININGS[name]
    with torch.device("meta"):
        total = sum(parameter.numel() for parameter in Transformer(config).parameters())
    return {
        "GPU-seconds": 8 * hours * 3600 * P100,
        "every token, every parameter": 6 * total * 2 * TOKENS * steps,
        "every token, one stack": 6 * total * TOKENS * steps,
        "counted": 3 * forward_flops(config, LENGTH, LENGTH) * TOKENS / LENGTH * steps,
    }
