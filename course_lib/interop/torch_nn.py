"""Copy weights and convert masks between this package and ``torch.nn``.

Paper: §3 describes one model; ``torch.nn`` and ``course_lib`` are two of it, and here they meet.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

ENCODER_LAYER = {  # our parts: torch's
    "self_attn": "self_attn",
    "feed_forward.linear1": "linear1",
    "feed_forward.linear2": "linear2",
    "add_norm1.norm": "norm1",
    "add_norm2.norm": "norm2",
}
DECODER_LAYER = ENCODER_LAYER | {"cross_attn": "multihead_attn", "add_norm3.norm": "norm3"}
WHOLE = slice(None)
Pairs = list[tuple[Tensor, Tensor]]
Walk = Iterator[tuple[Tensor, Tensor, slice]]  # our parameter, torch's, and the rows of it


def load_from_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """Give our module, in place, the weights of the module of ``torch.nn`` with the same numbers.

    Ours is a ``MultiHeadAttention``, ``LayerNorm``, ``EncoderLayer``, ``Encoder``,
    ``DecoderLayer``, ``Decoder``, ``Transformer`` (its two stacks), ``CausalSelfAttention``,
    ``GPTLayer`` or ``GPT`` (its layers and last norm).
    Raises ValueError if the two are not the same mathematics: another size, depth, number of heads,
    place of the norm, activation, or a final norm on one side only.
    """
    for mine, other in _pairs(ours, theirs, Tensor.detach):
        mine.copy_(other)


def copy_to_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """Give torch's module, in place, the weights of ours; otherwise as ``load_from_torch``."""
    for mine, other in _pairs(ours, theirs, Tensor.detach):
        other.copy_(mine)


def grad_pairs(ours: nn.Module, theirs: nn.Module) -> Pairs:
    """Pair the gradients of two modules that hold the same weights, parameter by parameter.

    Both have seen ``backward``. Returns pairs of the same shape, one for every parameter of ours
    (of a ``Transformer``: of its two stacks; of a ``GPT``: of its layers and last norm).
    Raises ValueError as ``load_from_torch`` does, and where there is no gradient yet.
    """
    return _pairs(ours, theirs, _gradient)


def to_blocked(mask: Tensor) -> Tensor:
    """Turn ``True`` = may look into ``True`` = blocked, as ``nn.MultiheadAttention`` reads it.

    Example:
        >>> to_blocked(torch.tensor([True, False]))
        tensor([False,  True])
    """
    if mask.dtype != torch.bool:  # of numbers, ~ would turn 1 into -2
        raise ValueError(f"a mask must be boolean (True = may look), got {mask.dtype}")
    return ~mask


def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Turn a mask into numbers to add to the scores: 0 where we may look, -inf where not.

    Example:
        >>> to_additive(torch.tensor([True, False]))
        tensor([0., -inf])
    """
    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill(to_blocked(mask), -torch.inf)


def to_attn_mask(mask: Tensor, B: int, H: int, T: int, S: int) -> Tensor:
    """Spread a mask out to the one shape per head that ``nn.MultiheadAttention`` takes.

    Returns:
        Shape ``(B * H, T, S)``, ``True`` = blocked.
    """
    return to_blocked(mask).expand(B, H, T, S).flatten(0, 1)


def _pairs(ours: nn.Module, theirs: nn.Module, read: Callable[[Tensor], Tensor]) -> Pairs:
    """Pair what ``read`` returns for the parameters of ours and of torch's; all shapes must fit."""
    parameters = list(_walk(ours, theirs))
    for mine, other, rows in parameters:
        if mine.shape != other[rows].shape:
            raise ValueError(
                f"a weight of {type(ours).__name__} has shape {tuple(mine.shape)}, "
                f"that of {type(theirs).__name__} {tuple(other[rows].shape)}"
            )
    return [(read(mine), read(other)[rows]) for mine, other, rows in parameters]


def _gradient(parameter: Tensor) -> Tensor:
    """Return the gradient of a parameter, or say that there is none yet."""
    if parameter.grad is None:
        raise ValueError(
            f"a parameter of shape {tuple(parameter.shape)} has no gradient; call backward first"
        )
    return parameter.grad


def _check_equal(property_name: str, mine: object, other: object) -> None:
    """Reject two modules that differ in a property that no weight shows."""
    if mine != other:
        raise ValueError(f"{property_name} differs: ours {mine}, torch's {other}")


def _check_attribute(ours: nn.Module, theirs: nn.Module, name: str) -> None:
    """Compare an attribute that no weight shows, if ours has it; a learner's class may lack it."""
    if hasattr(ours, name):
        _check_equal(name, getattr(ours, name), getattr(theirs, name))


def _walk(ours: nn.Module, theirs: nn.Module) -> Walk:
    """Walk two modules together.

    Ours is known by the name of its class, so that a class written in a chapter will do.
    """
    walks: dict[str, tuple[type, Callable[[Any, Any], Walk]]] = {
        "MultiHeadAttention": (nn.MultiheadAttention, _attention),
        "CausalSelfAttention": (nn.MultiheadAttention, _attention),
        "LayerNorm": (nn.LayerNorm, _weights),
        "EncoderLayer": (nn.TransformerEncoderLayer, _layer),
        "GPTLayer": (nn.TransformerEncoderLayer, _layer),
        "DecoderLayer": (nn.TransformerDecoderLayer, _layer),
        "Encoder": (nn.TransformerEncoder, _stack),
        "GPT": (nn.TransformerEncoder, _stack),
        "Decoder": (nn.TransformerDecoder, _stack),
        "Transformer": (nn.Transformer, _transformer),
    }
    for name in (base.__name__ for base in type(ours).__mro__):
        if name in walks and isinstance(theirs, walks[name][0]):
            return walks[name][1](ours, theirs)
    pairs = ", ".join(f"{name}–{torch_class.__name__}" for name, (torch_class, _) in walks.items())
    raise ValueError(
        f"cannot pair {type(theirs).__name__} with {type(ours).__name__}; known: {pairs}"
    )


def _weights(ours: nn.Module, theirs: nn.Module) -> Walk:
    """Pair weight and bias of two linear layers, or of two norms."""
    _check_attribute(ours, theirs, "eps")
    for name in ("weight", "bias"):
        mine = getattr(ours, name)
        other = getattr(theirs, name)
        property_name = f"a {type(theirs).__name__} having a {name}"
        _check_equal(property_name, mine is not None, other is not None)
        if mine is not None:
            yield mine, other, WHOLE


def _attention(ours: Any, theirs: nn.MultiheadAttention) -> Walk:
    """Pair our projections, one by one or in one block, with torch's block and output layer."""
    _check_attribute(ours, theirs, "num_heads")
    if theirs.in_proj_weight is None or theirs.bias_k is not None or theirs.add_zero_attn:
        raise ValueError("kdim, vdim, add_bias_kv and add_zero_attn have no counterpart here")
    fused = hasattr(ours, "w_qkv")
    projections = [ours.w_qkv] if fused else [ours.w_q, ours.w_k, ours.w_v]
    height = len(theirs.in_proj_weight) // len(projections)
    for place, projection in enumerate(projections):
        rows = slice(place * height, (place + 1) * height)
        _check_equal("having a bias", projection.bias is not None, theirs.in_proj_bias is not None)
        yield projection.weight, theirs.in_proj_weight, rows
        if projection.bias is not None:
            yield projection.bias, theirs.in_proj_bias, rows
    yield from _weights(ours.w_o, theirs.out_proj)


def _layer(ours: Any, theirs: Any) -> Walk:
    """Pair the parts of a layer; torch keeps the feed-forward's two in the layer itself."""
    probe = torch.tensor([-1.0, 0.5, 2.0])
    mine = getattr(ours.feed_forward, "activation", theirs.activation)(probe)
    _check_equal("the activation of (-1, 0.5, 2)", mine.tolist(), theirs.activation(probe).tolist())
    decodes = isinstance(theirs, nn.TransformerDecoderLayer)
    for name, other in (DECODER_LAYER if decodes else ENCODER_LAYER).items():
        owner, _, part = name.partition(".")
        if part == "norm":
            _check_attribute(getattr(ours, owner), theirs, "norm_first")
        walk = _weights if part else _walk
        yield from walk(ours.get_submodule(name), getattr(theirs, other))


def _stack(ours: Any, theirs: Any) -> Walk:
    """Pair the layers of a stack, and its final norm where both have one."""
    _check_equal("the number of layers", len(ours.layers), len(theirs.layers))
    norm = getattr(ours, "norm", None)
    norm = None if isinstance(norm, nn.Identity) else norm
    if (norm is None) != (theirs.norm is None):
        raise ValueError(
            f"a final norm on one side only: ours {norm}, torch's {theirs.norm}; the paper "
            "has none in post-norm: set the norm of torch's encoder and decoder to None"
        )
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        yield from _walk(mine, other)
    if norm is not None:
        yield from _walk(norm, theirs.norm)


def _transformer(ours: Any, theirs: nn.Transformer) -> Walk:
    """Pair encoders and decoders; torch's model has no embeddings or output projection."""
    yield from _walk(ours.encoder, theirs.encoder)
    yield from _walk(ours.decoder, theirs.decoder)
