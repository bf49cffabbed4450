"""Argument checks that explain: an error names the values that do not fit, and the way out."""

from collections.abc import Collection
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn


def check_attention_inputs(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> None:
    """Say what does not fit, with the numbers, before a matrix multiplication says it worse.

    Args:
        query: Shape ``(..., T, d_k)``.
        key: Shape ``(..., S, d_k)``.
        value: Shape ``(..., S, d_v)``.
        mask: Boolean, broadcastable to ``(..., T, S)``.

    Raises:
        ValueError: If a tensor has fewer than two axes, query and key differ in ``d_k``, key and
            value differ in ``S``, or their leading sizes do not broadcast; if the mask is not
            boolean, or does not broadcast to ``(..., T, S)``. The message holds the sizes
            (shapes, or the dtype of the mask) that do not fit.
    """
    q = tuple(query.shape)
    k = tuple(key.shape)
    v = tuple(value.shape)
    shapes = f"query {q}, key {k}, value {v}"
    if min(len(q), len(k), len(v)) < 2:
        raise ValueError(f"attention needs (..., length, width) tensors, got {shapes}")
    if q[-1] != k[-1]:
        raise ValueError(f"query and key need the same d_k, got {q[-1]} and {k[-1]}: {shapes}")
    if k[-2] != v[-2]:
        raise ValueError(f"every key needs one value, got {k[-2]} keys, {v[-2]} values: {shapes}")
    try:
        leading = torch.broadcast_shapes(q[:-2], k[:-2], v[:-2])
    except RuntimeError:
        raise ValueError(f"the leading (batch) sizes do not fit: {shapes}") from None
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(f"mask must be boolean (True = may look), not {mask.dtype}: mask.bool()?")
    target = (*leading, q[-2], k[-2])
    tail = zip(reversed(mask.shape), reversed(target), strict=False)
    if mask.dim() > len(target) or any(have not in (1, want) for have, want in tail):
        raise ValueError(f"mask {tuple(mask.shape)} does not broadcast to {target}: {shapes}")


def check_widths(layer: nn.Module, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Name the input whose width is not the one that an attention layer was built for.

    Args:
        layer: A ``MultiHeadAttention``.
        query: Shape ``(..., T, d_model)``.
        key: Shape ``(..., S, d_model)``.
        value: Shape ``(..., S, d_model)``.

    Raises:
        ValueError: If an input's width is not ``d_model``, or it has fewer than two axes. The
            message holds its name, its shape and the width that the layer wants.
    """
    d_model = layer.w_q.in_features
    for name, x in {"query": query, "key": key, "value": value}.items():
        if x.dim() < 2 or x.size(-1) != d_model:
            raise ValueError(
                f"{name} of shape {tuple(x.shape)}: this layer was built for (B, length, {d_model})"
            )


def head_width(d_model: int, num_heads: int, width: int | None = None) -> int:
    """Split d_model equally among the heads, unless a width is given.

    Paper: §3.2.2, d_k = d_v = d_model / h.

    Args:
        d_model: What is split.
        num_heads: Among how many.
        width: The width of one head where it is chosen freely; any number from 1.

    Returns:
        The width of one head.

    Raises:
        ValueError: If a size is below 1, or ``d_model`` does not divide and no width is given;
            the message holds the sizes.

    Example:
        >>> head_width(512, 8)
        64
    """
    if min(d_model, num_heads, 1 if width is None else width) < 1:
        raise ValueError(f"sizes start at 1: d_model={d_model}, num_heads={num_heads}, {width=}")
    if width is None and d_model % num_heads:
        raise ValueError(
            f"d_model={d_model} cannot be split into num_heads={num_heads} equal heads; "
            f"the remainder is {d_model % num_heads}; choose another number, or give d_k and d_v"
        )
    return width or d_model // num_heads


def check_sizes(**sizes: int) -> None:
    """Refuse sizes below 1.

    Args:
        **sizes: By name.

    Raises:
        ValueError: If one is below 1; the message holds all names and values.
    """
    if min(sizes.values()) < 1:
        named = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise ValueError(f"sizes start at 1, got {named}")


def check_width(x: Tensor, d_model: int) -> None:
    """Refuse vectors of another width than ``d_model``.

    Raises:
        ValueError: If the last axis of ``x`` has another size; the message holds both.
    """
    if x.size(-1) != d_model:
        raise ValueError(f"expected width {d_model}, got {tuple(x.shape)}")


def check_same_shape(x: Tensor, answer: Tensor) -> None:
    """Refuse a sub-layer's answer that cannot be added to its input.

    Raises:
        ValueError: If the two differ in shape; the message holds both.
    """
    if answer.shape != x.shape:
        raise ValueError(f"sub-layer made {tuple(answer.shape)} of {tuple(x.shape)}; no sum")


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Refuse a word that is none of the known ones.

    Raises:
        ValueError: If it is none; the message holds its name, the word and the choices.
    """
    if value not in choices:
        raise ValueError(f"{name}={value!r}; choose one of {sorted(choices)}")


def check_dropout(dropout: float) -> None:
    """Refuse a dropout probability outside [0, 1].

    Raises:
        ValueError: If it lies outside; the message holds it.
    """
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout must be in [0, 1], got {dropout}")


def check_fits(x: Tensor, table: Tensor, start: int = 0) -> None:
    """Refuse a sequence that is longer or wider than a table of positions.

    Args:
        x: Shape ``(..., L, d_model)``.
        table: Shape ``(max_len, d_model)``.
        start: The row of the first vector, from 0.

    Raises:
        ValueError: If ``x`` has fewer than two axes, its vectors are of another width, or they are
            more than ``max_len``. The message holds what was given and what fits.
    """
    max_len, d_model = table.shape
    if x.dim() < 2 or x.size(-1) != d_model:
        raise ValueError(f"expected vectors of width d_model={d_model}, got {tuple(x.shape)}")
    if start + x.size(-2) > max_len:
        raise ValueError(
            f"a sequence of {start + x.size(-2)} tokens does not fit max_len={max_len}; "
            "cut it, or build the model with a larger max_len"
        )


def check_config(config: Any, activations: Collection[str]) -> None:
    """Refuse hyperparameters that no Transformer can be built with.

    Args:
        config: A ``TransformerConfig``.
        activations: The names of the known ones.

    Raises:
        ValueError: If a size is no ``int`` from 1, dropout is not in [0, 1], the
            activation is unknown, ``d_model`` does not split into heads, the padding is not in
            both vocabularies, or the embeddings cannot be tied as asked. The message holds the
            field's name and value.
    """
    sizes = [f.name for f in fields(config) if f.type is int and not f.name.endswith("_id")]
    for name in sizes:
        value = getattr(config, name)
        if type(value) is not int or value < 1:
            raise ValueError(f"{name}={value!r} is no size; it must be a whole number from 1")
    check_dropout(config.dropout)
    check_choice("activation", config.activation, activations)
    head_width(config.d_model, config.num_heads, config.d_k)
    head_width(config.d_model, config.num_heads, config.d_v)
    vocab_sizes = (config.src_vocab_size, config.tgt_vocab_size)
    if config.pad_id not in range(min(vocab_sizes)):
        raise ValueError(f"pad_id={config.pad_id} is not in both vocabularies {vocab_sizes}")
    check_choice("tie_embeddings", config.tie_embeddings, ("all", "decoder", "none"))
    if config.tie_embeddings == "all" and len(set(vocab_sizes)) > 1:
        raise ValueError(
            f"tie_embeddings='all' needs one shared vocabulary, got sizes {vocab_sizes}; "
            "share it, or choose 'decoder' or 'none'"
        )


def check_ids(ids: Tensor, vocab_size: int, max_len: int, name: str) -> None:
    """Refuse what an embedding cannot look up, in words.

    The values are read on the CPU only, and not while compiling: on a GPU reading them would
    wait for the device.

    Args:
        ids: What should be token ids of shape ``(B, L)``.
        vocab_size: One more than the largest id.
        max_len: Most tokens in a row.
        name: How the error calls the ids.

    Raises:
        ValueError: If the ids are no tensor of ``torch.int64`` or ``torch.int32`` (the message
            holds their dtype), not of shape ``(B, L)`` or empty (their shape), longer than
            ``max_len`` (both lengths), or not all in 0 … vocab_size - 1 (the smallest and the
            largest). Every message holds ``name``.
    """
    dtype = getattr(ids, "dtype", type(ids))
    if dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} ids must be a tensor of integers (torch.long), got {dtype}")
    if ids.dim() != 2 or 0 in ids.shape:
        raise ValueError(f"{name} ids must have a shape (B, L) without zeros: {tuple(ids.shape)}")
    if ids.size(1) > max_len:
        raise ValueError(f"{name} has {ids.size(1)} tokens; this model reads max_len={max_len}")
    if ids.device.type == "cpu" and not torch.compiler.is_compiling():
        low = int(ids.min())
        high = int(ids.max())
        if low < 0 or high >= vocab_size:
            raise ValueError(
                f"{name} ids go from {low} to {high}; the vocabulary has 0 … {vocab_size - 1}"
            )


def check_same_batch(tgt: Tensor, memory: Tensor, src: Tensor, *, shared: bool = False) -> None:
    """Refuse a target, a memory and a source that do not belong together.

    Args:
        tgt: Shape ``(B, T)``.
        memory: Shape ``(B, S, d_model)``.
        src: Shape ``(B, S)``.
        shared: Whether several rows of the target may share a source: ``(B·K, T)``.

    Raises:
        ValueError: If the three differ in B, or memory and source in S. The message holds the
            three shapes.
    """
    fits = tgt.size(0) % src.size(0) == 0 if shared else tgt.size(0) == src.size(0)
    if memory.shape[:2] != src.shape or not fits:
        raise ValueError(
            f"target {tuple(tgt.shape)}, memory {tuple(memory.shape)} and source "
            f"{tuple(src.shape)} differ in batch size or source length"
        )


def check_special_ids(bos_id: int, eos_id: int, pad_id: int, vocab_size: int) -> None:
    """Refuse special tokens that are no tokens, or that are one and the same.

    Args:
        bos_id: What every target begins with.
        eos_id: What ends a target.
        pad_id: What fills a row up.
        vocab_size: One more than the largest id.

    Raises:
        ValueError: If they are not three different ids, each in 0 … vocab_size - 1. The message
            names all of them.
    """
    ids = (bos_id, eos_id, pad_id)
    if len(set(ids)) < 3 or not all(token in range(vocab_size) for token in ids):
        raise ValueError(
            f"bos_id={bos_id}, eos_id={eos_id} and pad_id={pad_id} must be three different ids "
            f"in 0 … {vocab_size - 1}"
        )
