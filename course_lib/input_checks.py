"""Input checks whose errors show the wrong values and say what to do."""

import math
from collections.abc import Collection
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

QUOTED = 200  # characters of somebody else's text in an error


def check_attention_inputs(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> None:
    """Check the shapes of query, key and value, and the mask, before any computation.

    Shapes: query (..., T, d_k), key (..., S, d_k), value (..., S, d_v); the mask broadcasts to
    (..., T, S). Raises ValueError if the shapes do not match or the mask is not boolean.
    """
    q = tuple(query.shape)
    k = tuple(key.shape)
    v = tuple(value.shape)
    shapes = f"query {q}, key {k}, value {v}"
    if min(len(q), len(k), len(v)) < 2:
        raise ValueError(f"attention needs tensors of shape (..., length, width), got {shapes}")
    if q[-1] != k[-1]:
        raise ValueError(f"query and key need the same d_k, got {q[-1]} and {k[-1]}: {shapes}")
    if k[-2] != v[-2]:
        raise ValueError(f"every key needs one value, got {k[-2]} keys, {v[-2]} values: {shapes}")
    try:
        leading = torch.broadcast_shapes(q[:-2], k[:-2], v[:-2])
    except RuntimeError:
        raise ValueError(f"the axes before the last two do not broadcast: {shapes}") from None
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be boolean (True = may look), got {mask.dtype}; "
            "convert a mask of ones and zeros with mask.bool()"
        )
    target = (*leading, q[-2], k[-2])
    tail = zip(reversed(mask.shape), reversed(target), strict=False)
    if mask.dim() > len(target) or any(have not in (1, want) for have, want in tail):
        raise ValueError(f"mask {tuple(mask.shape)} does not broadcast to {target}: {shapes}")


def check_widths(layer: nn.Module, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Check that query, key and value have the d_model that a ``MultiHeadAttention`` was built for.

    Raises ValueError if one has another width or fewer than two axes.
    """
    d_model = layer.w_q.in_features
    for name, x in {"query": query, "key": key, "value": value}.items():
        if x.dim() < 2 or x.size(-1) != d_model:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, "
                f"but this layer was built for (B, length, {d_model})"
            )


def head_width(d_model: int, num_heads: int, width: int | None = None) -> int:
    """Return the width of one head: the given width, or d_model / num_heads.

    Paper: §3.2.2, d_k = d_v = d_model / h.
    Raises ValueError if a size is below 1, or if no width is given and num_heads does not divide
    d_model.
    """
    if min(d_model, num_heads, 1 if width is None else width) < 1:
        given = "" if width is None else f", d_k or d_v={width}"
        raise ValueError(
            f"sizes must be positive integers, got d_model={d_model}, num_heads={num_heads}{given}"
        )
    if width is None and d_model % num_heads:
        raise ValueError(
            f"d_model={d_model} cannot be split into num_heads={num_heads} equal heads "
            f"(remainder {d_model % num_heads}); choose a num_heads that divides d_model, "
            "or give d_k and d_v"
        )
    return width or d_model // num_heads


def check_sizes(**sizes: int) -> None:
    """Raise ValueError if a size is below 1; the message names all sizes."""
    if min(sizes.values()) < 1:
        named = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise ValueError(f"sizes must be positive integers, got {named}")


def check_width(x: Tensor, d_model: int) -> None:
    """Raise ValueError if the last axis of x does not have size d_model."""
    if x.size(-1) != d_model:
        raise ValueError(f"expected vectors of width {d_model}, got shape {tuple(x.shape)}")


def check_same_shape(x: Tensor, answer: Tensor) -> None:
    """Raise ValueError if a sub-layer's output does not have the shape of its input."""
    if answer.shape != x.shape:
        raise ValueError(
            f"the sub-layer returned shape {tuple(answer.shape)} for an input of shape "
            f"{tuple(x.shape)}, so the two cannot be added"
        )


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raise ValueError if a value is not one of the choices; the message lists them."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {sorted(choices)}, got {value!r}")


def check_dropout(dropout: float) -> None:
    """Raise ValueError if a dropout probability is not in [0, 1]."""
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout must be in [0, 1], got {dropout}")


def check_fits(x: Tensor, table: Tensor, start: int = 0) -> None:
    """Check that x (..., L, d_model) fits a table of positions (max_len, d_model), from row start.

    Raises ValueError if x has fewer than two axes or another width, or ends after ``max_len``.
    """
    max_len, d_model = table.shape
    if x.dim() < 2 or x.size(-1) != d_model:
        raise ValueError(f"expected vectors of width d_model={d_model}, got shape {tuple(x.shape)}")
    if start + x.size(-2) > max_len:
        raise ValueError(
            f"a sequence of {start + x.size(-2)} tokens does not fit max_len={max_len}; "
            "cut it, or build the model with a larger max_len"
        )


def check_config(config: Any, activations: Collection[str] = ()) -> None:
    """Check the hyperparameters of a ``TransformerConfig``, ``GPTConfig`` or ``ModernConfig``.

    Raises ValueError, with the field's name and value, if a size is not a positive integer, another
    number is out of range, the heads do not divide the width, or the vocabularies and the padding
    do not fit each other.
    """
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    for field in fields(config):
        value = values[field.name]
        size = field.type is int and not field.name.endswith("_id")
        if size and (type(value) is not int or value < 1):
            raise ValueError(f"{field.name} must be a positive integer, got {value!r}")
        if field.type is float and not 0 <= value < math.inf:
            raise ValueError(f"{field.name} must be a finite number from 0, got {value!r}")
    check_dropout(values.get("dropout", 0.0))
    if "activation" in values:
        check_choice("activation", values["activation"], activations)
    for width in ("d_k", "d_v"):
        head_width(config.d_model, config.num_heads, values.get(width))
    check_kv_heads(config.num_heads, values.get("num_kv_heads", config.num_heads))
    if "pad_id" in values:
        check_vocabularies(config)


def check_vocabularies(config: Any) -> None:
    """Check that a ``TransformerConfig``'s vocabularies, padding and tied embeddings agree.

    Raises ValueError if the padding is not in both vocabularies, or the embeddings cannot be tied
    as requested.
    """
    sizes = (config.src_vocab_size, config.tgt_vocab_size)
    if config.pad_id not in range(min(sizes)):
        raise ValueError(
            f"pad_id={config.pad_id} must be an id in both vocabularies, which have "
            f"{sizes[0]} and {sizes[1]} tokens"
        )
    check_choice("tie_embeddings", config.tie_embeddings, ("all", "decoder", "none"))
    if config.tie_embeddings == "all" and len(set(sizes)) > 1:
        raise ValueError(
            f"tie_embeddings='all' needs one shared vocabulary, got sizes {sizes}; "
            "use one vocabulary for both sides, or choose 'decoder' or 'none'"
        )


def check_kv_heads(num_heads: int, num_kv_heads: int) -> None:
    """Check that the query heads can share the KV heads evenly.

    Raises ValueError if the number of KV heads does not divide the number of heads.
    """
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} heads cannot share {num_kv_heads} KV heads evenly")


def check_ids(ids: Tensor, vocab_size: int, max_len: int, name: str, start: int = 0) -> None:
    """Check that an embedding can look up ids (B, L), which the message calls ``name`` ids.

    Raises ValueError if they are not integers of shape (B, L), if there are none, if there are more
    than ``max_len`` with the ``start`` tokens before them, or if they are not all in 0 to
    vocab_size - 1. The values are checked on the CPU only, and not while compiling, because reading
    them on a GPU would wait for the device.
    """
    dtype = getattr(ids, "dtype", type(ids))
    if dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} ids must be a tensor of integers (torch.long), got {dtype}")
    if ids.dim() != 2 or 0 in ids.shape:
        raise ValueError(
            f"{name} ids must have the shape (B, L), with at least one token, "
            f"got {tuple(ids.shape)}"
        )
    length = start + ids.size(1)
    if length > max_len:
        raise ValueError(
            f"{name} has {length} tokens, but this model reads at most max_len={max_len}"
        )
    if ids.device.type == "cpu" and not torch.compiler.is_compiling():
        low = int(ids.min())
        high = int(ids.max())
        if low < 0 or high >= vocab_size:
            raise ValueError(
                f"{name} ids range from {low} to {high}, "
                f"but the vocabulary has ids 0 to {vocab_size - 1}"
            )


def check_truncation(length: int, stored: int) -> None:
    """Check that the first ``length`` of the stored tokens can be kept.

    Raises ValueError if there are fewer, or ``length`` is negative.
    """
    if not 0 <= length <= stored:
        raise ValueError(f"length={length} is not in 0 … {stored}, the tokens stored")


def check_same_batch(tgt: Tensor, memory: Tensor, src: Tensor) -> None:
    """Check that target (B, T), memory (B, S, d_model) and source (B, S) belong together.

    Raises ValueError if they differ in batch size or source length.
    """
    if memory.shape[:2] != src.shape or len(tgt) != len(src):
        raise ValueError(
            f"target {tuple(tgt.shape)}, memory {tuple(memory.shape)} and source "
            f"{tuple(src.shape)} differ in batch size or source length"
        )


def check_special_ids(bos_id: int, eos_id: int, pad_id: int, vocab_size: int) -> None:
    """Check that the ids of the special tokens are three different ids of the vocabulary.

    Raises ValueError if they are not.
    """
    ids = (bos_id, eos_id, pad_id)
    if len(set(ids)) < 3 or not all(token in range(vocab_size) for token in ids):
        raise ValueError(
            f"bos_id={bos_id}, eos_id={eos_id} and pad_id={pad_id} must be three different ids "
            f"from 0 to {vocab_size - 1}"
        )


def check_room(cache: Any, keys: Tensor) -> None:
    """Check that the keys (B, H, T, d_k) of new tokens continue those in an ``AttentionCache``.

    Raises ValueError if the number of rows has changed, or if there is no room for the tokens.
    """
    rows, new = len(keys), keys.size(2)
    stored = rows if cache.keys is None else len(cache.keys)
    if rows != stored or cache.length + new > cache.max_len:
        raise ValueError(
            f"{rows} rows of {new} new tokens do not continue {stored} rows of {cache.length} "
            f"tokens with room for {cache.max_len}: reorder the rows, or choose a larger max_len"
        )


def check_rows(ids: Tensor, sources: int) -> None:
    """Check that every source has the same number of target rows.

    Raises ValueError if the number of sources does not divide the number of rows.
    """
    if len(ids) % sources:
        raise ValueError(
            f"target {tuple(ids.shape)} has {len(ids)} rows for {sources} sources; each source "
            "needs the same number of rows"
        )


def check_scores(scores: Tensor, temperature: float) -> None:
    """Check that every row of scores has a softmax; the message holds the temperature.

    Raises ValueError if a row holds nan, infinity, or no finite score. The values are checked on
    the CPU only, because reading them on a GPU would wait for the device.
    """
    if scores.device.type == "cpu" and not scores.amax(dim=-1).isfinite().all():
        raise ValueError(
            f"logits divided by temperature={temperature} hold nan, infinity, or a row without a "
            "finite score, so no token can be drawn; check the logits, or raise the temperature"
        )


def first_line(error: BaseException) -> str:
    """Quote the beginning of an error: one line, and at most ``QUOTED`` characters of it."""
    return str(error).strip().partition("\n")[0][:QUOTED]
