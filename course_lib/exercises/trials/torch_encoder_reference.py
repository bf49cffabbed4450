"""Torch's own encoder, with the parameters of ours: what chapter 07's checks compare with."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from course_lib.exercises.old_trial import H


def torch_names(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Call the parameters of a layer as torch does; its q, k and v are one block."""
    theirs = {}
    for kind in ("weight", "bias"):
        block = [named[f"self_attn.w_{letter}.{kind}"] for letter in "qkv"]
        theirs[f"self_attn.in_proj_{kind}"] = torch.cat(block)
        theirs[f"self_attn.out_proj.{kind}"] = named[f"self_attn.w_o.{kind}"]
        for number in (1, 2):
            theirs[f"linear{number}.{kind}"] = named[f"feed_forward.linear{number}.{kind}"]
            theirs[f"norm{number}.{kind}"] = named[f"add_norm{number}.norm.{kind}"]
    return theirs


def bare_layer(named: Mapping[str, Tensor], num_heads: int, **options: Any) -> nn.Module:
    """Make torch's layer of the same sizes, without dropout."""
    d_ff, d_model = named["feed_forward.linear1.weight"].shape
    return nn.TransformerEncoderLayer(
        d_model, num_heads, d_ff, dropout=0.0, batch_first=True, **options
    )


def blocked(mask: Tensor | None, x: Tensor, num_heads: int) -> Tensor | None:
    """Turn a mask into torch's: True = blocked, one for every head of every sentence."""
    L = x.size(1)
    return None if mask is None else ~mask.expand(len(x), num_heads, L, L).flatten(0, 1)


def torch_encoder_layer(
    named: Mapping[str, Tensor],
    x: Tensor,
    mask: Tensor | None = None,
    num_heads: int = H,
    **options: Any,
) -> Tensor:
    """Let torch's own layer compute with parameters of ours."""
    layer = bare_layer(named, num_heads, **options)
    return functional_call(layer, torch_names(named), (x, blocked(mask, x, num_heads)))


def torch_encoder(
    named: Mapping[str, Tensor], x: Tensor, mask: Tensor | None = None, **options: Any
) -> Tensor:
    """Let torch's own stack compute with parameters of ours."""
    layers, theirs = {}, {}
    for name, parameter in named.items():
        place, _, rest = name.removeprefix("layers.").partition(".")
        if name.startswith("layers."):
            layers.setdefault(place, {})[rest] = parameter
        else:
            theirs[name] = parameter  # the last norm
    for place, parameters in layers.items():
        theirs |= {f"layers.{place}.{n}": p for n, p in torch_names(parameters).items()}
    layer = bare_layer(layers["0"], H, **options)
    norm = nn.LayerNorm(x.size(-1)) if "norm.weight" in named else None
    stack = nn.TransformerEncoder(layer, len(layers), norm, enable_nested_tensor=False)
    return functional_call(stack, theirs, (x, blocked(mask, x, H)))
