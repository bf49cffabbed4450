"""Encoder and decoder layers as formulas on named tensors: what the checks compare with."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.old_trial import H

Parameters = Mapping[str, Tensor]
Say = Callable[[Tensor], Tensor]
TORCHS = {  # what the exercises from the encoder layer on must not call
    F.multi_head_attention_forward: "This calls torch's own attention layer. Take the "
    "MultiHeadAttention of chapter 02: its parameters have the names that are asked for."
}


def attend(
    p: Parameters, at: str, memory: Tensor | None, mask: Tensor | None, seen: dict | None, x: Tensor
) -> Tensor:
    """Let H heads of x look at the memory, or at x, by Einstein sums; ``seen`` gets the weights."""
    answering = x if memory is None else memory
    q, k, v = (
        F.linear(z, p[f"{at}.{name}.weight"], p[f"{at}.{name}.bias"]).unflatten(-1, (H, -1))
        for name, z in {"w_q": x, "w_k": answering, "w_v": answering}.items()
    )
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    weights = F.softmax(scores, dim=-1)  # (B, H, T, S)
    if seen is not None:
        seen[at] = weights
    blend = torch.einsum("bhts,bshd->bthd", weights, v).flatten(2)
    return F.linear(blend, p[f"{at}.w_o.weight"], p[f"{at}.w_o.bias"])


def feed_forward(p: Parameters, at: str, activation: str, x: Tensor) -> Tensor:
    """Write equation (2) of the paper, with torch's function of that name inside."""
    features = F.linear(x, p[f"{at}.linear1.weight"], p[f"{at}.linear1.bias"])
    features = getattr(F, activation)(features)
    return F.linear(features, p[f"{at}.linear2.weight"], p[f"{at}.linear2.bias"])


def norm(p: Parameters, at: str, x: Tensor) -> Tensor:
    """Normalize every vector."""
    return F.layer_norm(x, x.shape[-1:], p[f"{at}.weight"], p[f"{at}.bias"])


def add_norms(p: Parameters, at: str, x: Tensor, says: Sequence[Say], norm_first: bool) -> Tensor:
    """Add what one sub-layer after the other says; normalize each sum, or what each reads."""
    for number, say in enumerate(says, start=1):
        name = f"{at}add_norm{number}.norm"
        x = x + say(norm(p, name, x)) if norm_first else norm(p, name, x + say(x))
    return x


def encoder(
    p: Parameters,
    layers: Sequence[str],
    x: Tensor,
    mask: Tensor | None = None,
    *,
    norm_first: bool = False,
    activation: str = "relu",
    last: str | None = None,
    seen: dict | None = None,
) -> Tensor:
    """Run encoder layers, each under its prefix, and the norm called ``last``, if any."""
    for at in layers:
        says = (
            partial(attend, p, f"{at}self_attn", None, mask, seen),
            partial(feed_forward, p, f"{at}feed_forward", activation),
        )
        x = add_norms(p, at, x, says, norm_first)
    return x if last is None else norm(p, last, x)


def decoder(
    p: Parameters,
    layers: Sequence[str],
    x: Tensor,
    memory: Tensor,
    self_mask: Tensor | None = None,
    cross_mask: Tensor | None = None,
    *,
    norm_first: bool = False,
    activation: str = "relu",
    last: str | None = None,
    seen: dict | None = None,
) -> Tensor:
    """Run decoder layers, each under its prefix, and the norm called ``last``, if any."""
    for at in layers:
        says = (
            partial(attend, p, f"{at}self_attn", None, self_mask, seen),
            partial(attend, p, f"{at}cross_attn", memory, cross_mask, seen),
            partial(feed_forward, p, f"{at}feed_forward", activation),
        )
        x = add_norms(p, at, x, says, norm_first)
    return x if last is None else norm(p, last, x)
