"""The whole model as formulas on named tensors, and the small models that are compared."""

import math
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from course_lib.exercises.old_trial import D_K, H
from course_lib.exercises.trials.decoder_layer import D_FF
from course_lib.exercises.trials.layer_formulas import decoder, encoder
from course_lib.transformer import TransformerConfig

D_MODEL, PAD = H * D_K, 3  # PAD is not 0: nothing may assume it is
APART = TransformerConfig(
    src_vocab_size=13, tgt_vocab_size=10, d_model=D_MODEL, num_heads=H, num_encoder_layers=1,
    num_decoder_layers=1, d_ff=D_FF, dropout=0.0, max_len=9, tie_embeddings="none", pad_id=PAD,
)  # fmt: skip
ONE = replace(APART, src_vocab_size=10, tie_embeddings="all")
OPTIONS = replace(
    APART, norm_first=True, activation="gelu", dropout=0.5, d_k=5, d_v=7, num_decoder_layers=2,
    tie_embeddings="decoder",
)  # fmt: skip
SRC = torch.tensor([[5, 0, 7, 8, 9], [9, 2, 4, PAD, PAD]])
TGT = torch.tensor([[1, 4, 0, 6], [1, 7, 8, PAD]])
FULL = torch.tensor([[1, 4, 0, 6], [1, 7, 8, 2]])  # no padding: an embedding may skip its gradient
SHORT = torch.tensor([[5, 0, 7, 8], [9, 4, PAD, PAD]])  # a source as long as the target


@cache
def waves(length: int) -> Tensor:
    """Write §3.5 number by number."""
    turn = (math.sin, math.cos)
    rows = [
        [turn[i % 2](t / 10000 ** ((i - i % 2) / D_MODEL)) for i in range(D_MODEL)]
        for t in range(length)
    ]
    return torch.tensor(rows)


def embed(p: dict[str, Tensor], side: str, ids: Tensor) -> Tensor:
    """Take rows of a matrix, however it is called, and add the positions."""
    table = p.get(f"{side}_embedding.weight", p["output.weight"])
    return table[ids] * D_MODEL**0.5 + waves(ids.size(1))


def seeing(ids: Tensor) -> Tensor:
    """Say which keys are words: (B, 1, 1, L)."""
    return ids.ne(PAD).unflatten(0, (-1, 1, 1))


def remember(p: dict, src: Tensor, config: TransformerConfig, seen: dict | None = None) -> Tensor:
    """Turn source ids into the memory."""
    how = dict(norm_first=config.norm_first, activation=config.activation, seen=seen)
    layers = [f"encoder.layers.{n}." for n in range(config.num_encoder_layers)]
    last = "encoder.norm" if config.norm_first else None
    return encoder(p, layers, embed(p, "src", src), seeing(src), last=last, **how)


def score(
    p: dict,
    tgt: Tensor,
    memory: Tensor,
    src: Tensor,
    config: TransformerConfig,
    seen: dict | None = None,
) -> Tensor:
    """Turn target ids and the memory into logits."""
    how = dict(norm_first=config.norm_first, activation=config.activation, seen=seen)
    layers = [f"decoder.layers.{n}." for n in range(config.num_decoder_layers)]
    last = "decoder.norm" if config.norm_first else None
    place = torch.arange(tgt.size(1))
    visible = seeing(tgt) & (place[None, :] <= place[:, None])
    x = decoder(p, layers, embed(p, "tgt", tgt), memory, visible, seeing(src), last=last, **how)
    return torch.einsum("btd,vd->btv", x, p["output.weight"])
