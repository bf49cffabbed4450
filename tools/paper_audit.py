"""What models of published sizes cost: the training runs in table 2 of the paper, and memory."""

from dataclasses import replace

import torch

from course_lib.flops import attention_flops, forward_flops
from course_lib.modern_decoder import ModernConfig, ModernDecoder
from course_lib.transformer import Transformer, TransformerConfig

BASE = TransformerConfig(src_vocab_size=37_000, tgt_vocab_size=37_000)
BIG = replace(BASE, d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)
LLAMA_2_7B = ModernConfig(
    vocab_size=32_000, max_len=4_096, num_layers=32, num_heads=32, num_kv_heads=32, d_model=4_096,
    d_ff=11_008, tie_embeddings=False,
)  # fmt: skip
P100 = 9.5e12  # operations that one GPU sustains per second, according to the paper
TRAININGS = {  # the model, its steps and hours, and the cost in table 2
    "base": (BASE, 100_000, 12, 3.3e18),
    "big": (BIG, 300_000, 3.5 * 24, 2.3e19),
}
TOKENS = 25_000  # source tokens in a batch, which has the same number of target tokens (§5.1)
LENGTH = 25  # tokens in every sentence; only *counted* depends on this


def parameter_count(config: TransformerConfig | ModernConfig) -> int:
    """Count a model's parameters, without memory for them."""
    with torch.device("meta"):
        if isinstance(config, ModernConfig):
            model: torch.nn.Module = ModernDecoder(config)
        else:
            model = Transformer(config)
    return sum(parameter.numel() for parameter in model.parameters())


def token_flops(config: TransformerConfig | ModernConfig) -> float:
    """Count a forward pass's operations per token: a short sentence pair, or a full context."""
    if isinstance(config, TransformerConfig):
        return forward_flops(config, LENGTH, LENGTH) / LENGTH
    c, n = config, config.max_len
    layer = attention_flops(c.d_model, c.num_heads, n, n) / n + 3 * 2 * c.d_model * c.d_ff
    return c.num_layers * layer + 2 * c.d_model * c.vocab_size


def training_cost(name: str) -> dict[str, float]:
    """Estimate the operations in the ``"base"`` or ``"big"`` training run in four ways."""
    config, steps, hours, _ = TRAININGS[name]
    total = parameter_count(config)
    return {
        "GPU-seconds": 8 * hours * 3600 * P100,
        "every token, every parameter": 6 * total * 2 * TOKENS * steps,
        "every token, one stack": 6 * total * TOKENS * steps,
        "counted": 3 * forward_flops(config, LENGTH, LENGTH) * TOKENS / LENGTH * steps,
    }
