"""GPT as formulas on named tensors, and the small models that chapter 18's checks compare."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from course_lib.exercises.old_trial import D_K, H, by_name, filled
from course_lib.exercises.trials.layer_formulas import encoder
from course_lib.gpt import GPT, GPTConfig

D_MODEL = H * D_K
CONFIG = GPTConfig(
    vocab_size=10, max_len=6, num_layers=2, num_heads=H, d_model=D_MODEL, dropout=0.0
)
IDS = torch.tensor([[1, 4, 0, 6, 3], [3, 7, 8, 2, 9]])
WRITER = replace(CONFIG, vocab_size=11, max_len=7, d_model=4 * H)


class Named(dict):
    """Hold parameters by name; what a model goes without is ``None``."""

    def __missing__(self, name: str) -> None:
        return None


def unfused(p: Mapping[str, Tensor]) -> Named:
    """Cut every fused matrix into those of queries, keys and values, in this order."""
    apart = Named()
    for name, parameter in p.items():
        at, fused, kind = name.rpartition("w_qkv.")
        if fused:
            for letter, rows in zip("qkv", parameter.chunk(3), strict=True):
                apart[f"{at}w_{letter}.{kind}"] = rows
        else:
            apart[name] = parameter
    return apart


def past(length: int) -> Tensor:
    """Say who may look at whom: (T, T)."""
    return torch.ones(length, length).tril().bool()


def layer(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Run one layer; its parameters have no prefix."""
    return encoder(unfused(p), [""], x, past(x.size(1)), norm_first=True, activation="gelu")


def scores(p: Mapping[str, Tensor], ids: Tensor, num_layers: int = 2) -> Tensor:
    """Turn ids into logits."""
    p = unfused(p)
    table, length = p["embedding.weight"], ids.size(1)
    x = table[ids] + p["positions.weight"][:length]
    at = [f"layers.{n}." for n in range(num_layers)]
    x = encoder(p, at, x, past(length), norm_first=True, activation="gelu", last="norm")
    return torch.einsum("btd,vd->btv", x, table)


def surprise(logits: Tensor, targets: Tensor) -> Tensor:
    """Average the nats per token."""
    shares = logits.log_softmax(dim=-1)
    return -shares.gather(-1, targets.unsqueeze(-1)).mean()


def writer(config: GPTConfig = WRITER) -> GPT:
    """Build a model with matrices so large that its texts differ, in eval mode."""
    model = filled(GPT(config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 0.5 if name.endswith("bias") else 1)
    return model.eval()


def says(model: GPT, ids: Tensor) -> Tensor:
    """Score a text by the formulas, with a model's numbers."""
    with torch.no_grad():
        return scores(by_name(model), ids, len(model.layers))
