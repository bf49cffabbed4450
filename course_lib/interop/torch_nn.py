"""Carry weights and masks between this package and ``torch.nn``, to compare the two.

Paper: §3 describes one model; ``torch.nn`` and ``course_lib`` are two of it, and here they meet.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from course_lib.add_norm import AddNorm, LayerNorm
from course_lib.decoder import Decoder, DecoderLayer
from course_lib.encoder import Encoder, EncoderLayer
from course_lib.feed_forward import FeedForward
from course_lib.gpt import GPT, CausalSelfAttention, GPTLayer
from course_lib.multi_head import MultiHeadAttention
from course_lib.transformer import Transformer

Pairs = Iterator[tuple[Tensor, Tensor]]


def load_from_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """Give our module the weights of torch's.

    Args:
        ours: ``MultiHeadAttention``, ``LayerNorm``, ``EncoderLayer``, ``Encoder``,
            ``DecoderLayer``, ``Decoder``, ``Transformer`` (its two stacks),
            ``CausalSelfAttention``, ``GPTLayer`` or ``GPT`` (its layers and last norm); changed
            in place.
        theirs: The module of ``torch.nn`` with the same numbers.

    Raises:
        ValueError: If the two are not the same mathematics: another size, depth, number of
            heads, place of the norm, activation, or a final norm on one side only.
    """
    pairs = _checked(ours, theirs)
    with torch.no_grad():
        for mine, other in pairs:
            mine.copy_(other)


def copy_to_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """Give torch's module the weights of ours.

    Args:
        ours: As in ``load_from_torch``.
        theirs: The module of ``torch.nn`` with the same numbers; changed in place.

    Raises:
        ValueError: As in ``load_from_torch``.
    """
    pairs = _checked(ours, theirs)
    with torch.no_grad():
        for mine, other in pairs:
            other.copy_(mine)


def grad_pairs(ours: nn.Module, theirs: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Pair the gradients of two modules that hold the same weights, parameter by parameter.

    Args:
        ours: As in ``load_from_torch``, after ``backward``.
        theirs: The module of ``torch.nn``, after ``backward``.

    Returns:
        Pairs of gradients of the same shape, one for every parameter of ours (of a
        ``Transformer``: of its two stacks; of a ``GPT``: of its layers and last norm).

    Raises:
        ValueError: As in ``load_from_torch``, and where there is no gradient yet.
    """
    parameters = [mine for mine, _ in _checked(ours, theirs)]
    gradients = [other for _, other in _pairs(ours, theirs, grad=True)]
    return [(_pick(mine, True), other) for mine, other in zip(parameters, gradients, strict=True)]


def to_blocked(mask: Tensor) -> Tensor:
    """Turn ``True`` = may look into ``True`` = blocked, as ``nn.MultiheadAttention`` reads it.

    Example:
        >>> to_blocked(torch.tensor([True, False]))
        tensor([False,  True])
    """
    _require_boolean(mask)
    return ~mask


def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Turn a mask into numbers to add to the scores: 0 where we may look, -inf where not.

    Example:
        >>> to_additive(torch.tensor([True, False]))
        tensor([0., -inf])
    """
    _require_boolean(mask)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -torch.inf)


def to_attn_mask(mask: Tensor, B: int, H: int, T: int, S: int) -> Tensor:
    """Spread a mask out to the one shape per head that ``nn.MultiheadAttention`` takes.

    Returns:
        Shape ``(B * H, T, S)``, ``True`` = blocked.
    """
    return to_blocked(mask).expand(B, H, T, S).flatten(0, 1)


def from_lengths(lengths: Tensor, max_len: int) -> Tensor:
    """Turn the number of real tokens in each row into a mask that hides the rest.

    Args:
        lengths: Shape ``(B,)``, in [0, max_len].
        max_len: Length of the padded rows, S.

    Returns:
        Shape ``(B, 1, 1, S)``, ``True`` = may look.

    Raises:
        ValueError: If a length does not fit.

    Example:
        >>> from_lengths(torch.tensor([2]), max_len=3)
        tensor([[[[ True,  True, False]]]])
    """
    if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= max_len:
        raise ValueError(f"lengths {lengths.tolist()} do not fit in 0 … max_len={max_len}")
    positions = torch.arange(max_len, device=lengths.device)
    return (positions < lengths.unsqueeze(1))[:, None, None, :]


def to_lengths(mask: Tensor) -> Tensor:
    """Count the keys a padding mask ``(B, 1, 1, S)`` leaves visible. Returns shape ``(B,)``.

    Raises:
        ValueError: If the mask has another shape, or the visible keys of a row are not its
            first ones; no length says that.

    Example:
        >>> to_lengths(torch.tensor([[[[True, True, False]]]]))
        tensor([2])
    """
    if mask.dim() != 4 or mask.shape[1:3] != (1, 1):
        raise ValueError(f"a padding mask has the shape (B, 1, 1, S), got {tuple(mask.shape)}")
    lengths = mask.flatten(1).sum(dim=1)
    if not torch.equal(from_lengths(lengths, mask.size(-1)), mask):
        raise ValueError("a length can only say that the first keys are visible; this mask differs")
    return lengths


def _require_boolean(mask: Tensor) -> None:
    """Refuse a mask of numbers: ``~`` would turn 1 into -2."""
    if mask.dtype != torch.bool:
        raise ValueError(f"a mask is boolean, True = may look; got {mask.dtype}")


def _checked(ours: nn.Module, theirs: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """List all pairs of weights, after making sure that every shape fits."""
    pairs = list(_pairs(ours, theirs))
    for mine, other in pairs:
        if mine.shape != other.shape:
            raise ValueError(
                f"a weight of {type(ours).__name__} has shape {tuple(mine.shape)}, "
                f"that of {type(theirs).__name__} {tuple(other.shape)}"
            )
    return pairs


def _same(what: str, mine: object, other: object) -> None:
    """Refuse two modules that differ in what no weight shows."""
    if mine != other:
        raise ValueError(f"{what} differs: ours {mine}, torch's {other}")


def _agree(ours: nn.Module, theirs: nn.Module, name: str) -> None:
    """Compare what no weight shows; a learner's class that does not tell is taken at its word."""
    if hasattr(ours, name):
        _same(name, getattr(ours, name), getattr(theirs, name))


def _pairs(ours: nn.Module, theirs: nn.Module, grad: bool = False) -> Pairs:
    """Walk two modules together; ``grad`` yields the other's gradients in place of its weights.

    Ours is known by the name of its class, so that a class written in a chapter will do.
    """
    walks = {
        "MultiHeadAttention": (nn.MultiheadAttention, _attention),
        "LayerNorm": (nn.LayerNorm, _norm),
        "CausalSelfAttention": (nn.MultiheadAttention, _fused_attention),
        "EncoderLayer": (nn.TransformerEncoderLayer, _encoder_layer),
        "GPTLayer": (nn.TransformerEncoderLayer, _encoder_layer),
        "DecoderLayer": (nn.TransformerDecoderLayer, _decoder_layer),
        "Encoder": (nn.TransformerEncoder, _stack),
        "GPT": (nn.TransformerEncoder, _stack),
        "Decoder": (nn.TransformerDecoder, _stack),
        "Transformer": (nn.Transformer, _transformer),
    }
    for name in (kind.__name__ for kind in type(ours).__mro__):
        if name in walks and isinstance(theirs, walks[name][0]):
            yield from walks[name][1](ours, theirs, grad)
            return
    known = ", ".join(f"{name}–{kind.__name__}" for name, (kind, _) in walks.items())
    raise ValueError(
        f"no way from {type(theirs).__name__} to {type(ours).__name__}; known: {known}"
    )


def _pick(parameter: Tensor, grad: bool) -> Tensor:
    """Return a parameter, or its gradient."""
    if not grad:
        return parameter
    if parameter.grad is None:
        raise ValueError(
            f"a parameter of shape {tuple(parameter.shape)} has no gradient; call backward first"
        )
    return parameter.grad


def _linear(ours: nn.Linear, theirs: nn.Linear, grad: bool) -> Pairs:
    """Pair two linear layers."""
    _same("having a bias", ours.bias is not None, theirs.bias is not None)
    yield ours.weight, _pick(theirs.weight, grad)
    if ours.bias is not None:
        yield ours.bias, _pick(theirs.bias, grad)


def _norm(ours: LayerNorm | nn.LayerNorm, theirs: nn.LayerNorm, grad: bool) -> Pairs:
    """Pair gains and shifts."""
    _agree(ours, theirs, "eps")
    for name in ("weight", "bias"):
        mine = getattr(ours, name)
        other = getattr(theirs, name)
        _same(f"a norm having a {name}", mine is not None, other is not None)
        if mine is not None:
            yield mine, _pick(other, grad)


def _attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention, grad: bool) -> Pairs:
    """Pair our four projections with torch's one block and its output layer."""
    _agree(ours, theirs, "num_heads")
    _require_one_block(theirs)
    _same("having a bias", ours.w_q.bias is not None, theirs.in_proj_bias is not None)
    projections = (ours.w_q, ours.w_k, ours.w_v)
    weights = _pick(theirs.in_proj_weight, grad).chunk(3)
    yield from zip((p.weight for p in projections), weights, strict=True)
    if theirs.in_proj_bias is not None:
        biases = _pick(theirs.in_proj_bias, grad).chunk(3)
        yield from zip((p.bias for p in projections), biases, strict=True)
    yield from _linear(ours.w_o, theirs.out_proj, grad)


def _require_one_block(theirs: nn.MultiheadAttention) -> None:
    """Refuse what torch's attention can have, and ours cannot."""
    if theirs.in_proj_weight is None or theirs.bias_k is not None or theirs.add_zero_attn:
        raise ValueError("kdim, vdim, add_bias_kv and add_zero_attn have no counterpart here")


def _fused_attention(ours: CausalSelfAttention, theirs: nn.MultiheadAttention, grad: bool) -> Pairs:
    """Pair two attentions that keep queries, keys and values in one block, in the same order."""
    _agree(ours, theirs, "num_heads")
    _require_one_block(theirs)
    _same("having a bias", ours.w_qkv.bias is not None, theirs.in_proj_bias is not None)
    yield ours.w_qkv.weight, _pick(theirs.in_proj_weight, grad)
    if theirs.in_proj_bias is not None:
        yield ours.w_qkv.bias, _pick(theirs.in_proj_bias, grad)
    yield from _linear(ours.w_o, theirs.out_proj, grad)


def _feed_forward(ours: FeedForward, theirs: nn.Module, grad: bool) -> Pairs:
    """Pair our sub-layer with the two linear layers inside torch's layer."""
    probe = torch.tensor([-1.0, 0.5, 2.0])
    mine = getattr(ours, "activation", theirs.activation)(probe)
    _same("the activation of (-1, 0.5, 2)", mine.tolist(), theirs.activation(probe).tolist())
    yield from _linear(ours.linear1, theirs.linear1, grad)
    yield from _linear(ours.linear2, theirs.linear2, grad)


def _add_norms(ours: list[AddNorm], theirs: nn.Module, grad: bool) -> Pairs:
    """Pair the norms of a layer, in order."""
    for number, add_norm in enumerate(ours, start=1):
        _agree(add_norm, theirs, "norm_first")
        yield from _norm(add_norm.norm, getattr(theirs, f"norm{number}"), grad)


def _encoder_layer(
    ours: EncoderLayer | GPTLayer, theirs: nn.TransformerEncoderLayer, grad: bool
) -> Pairs:
    """Pair the parts of a layer without cross-attention."""
    yield from _pairs(ours.self_attn, theirs.self_attn, grad)
    yield from _feed_forward(ours.feed_forward, theirs, grad)
    yield from _add_norms([ours.add_norm1, ours.add_norm2], theirs, grad)


def _decoder_layer(ours: DecoderLayer, theirs: nn.TransformerDecoderLayer, grad: bool) -> Pairs:
    """Pair the parts of a decoder layer; torch calls cross-attention multihead_attn."""
    yield from _attention(ours.self_attn, theirs.self_attn, grad)
    yield from _attention(ours.cross_attn, theirs.multihead_attn, grad)
    yield from _feed_forward(ours.feed_forward, theirs, grad)
    yield from _add_norms([ours.add_norm1, ours.add_norm2, ours.add_norm3], theirs, grad)


def _stack(ours: Encoder | Decoder | GPT, theirs: nn.Module, grad: bool) -> Pairs:
    """Pair the layers of a stack, and its final norm where both have one."""
    _same("the number of layers", len(ours.layers), len(theirs.layers))
    norm = getattr(ours, "norm", None)
    norm = None if isinstance(norm, nn.Identity) else norm
    if (norm is None) != (theirs.norm is None):
        raise ValueError(
            f"a final norm on one side only: ours {norm}, torch's {theirs.norm}; the paper "
            "has none in post-norm: set the norm of torch's encoder and decoder to None"
        )
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        yield from _pairs(mine, other, grad)
    if norm is not None:
        yield from _pairs(norm, theirs.norm, grad)


def _transformer(ours: Transformer, theirs: nn.Transformer, grad: bool) -> Pairs:
    """Pair the two stacks; torch's model has no embeddings and no output projection."""
    yield from _pairs(ours.encoder, theirs.encoder, grad)
    yield from _pairs(ours.decoder, theirs.decoder, grad)
