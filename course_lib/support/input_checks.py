"""Input checks, which raise ValueError; the message shows the wrong values and says what to do."""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from inspect import get_annotations

import torch
from torch import Tensor, nn

from course_lib.support.quoted_text import QUOTED


def check_attention_inputs(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> None:
    """Check the shapes of query, key and value, and the mask, before any computation.

    Shapes: query (..., T, d_k), key (..., S, d_k), value (..., S, d_v); the mask broadcasts to
    (..., T, S).
    """
    q, k, v = (tuple(x.shape) for x in (query, key, value))
    shapes = f"query {q}, key {k}, value {v}"
    if min(len(q), len(k), len(v)) < 2:
        raise ValueError(f"attention needs tensors of shape (..., length, width), got {shapes}")
    if q[-1] != k[-1]:
        raise ValueError(f"query and key need the same d_k, got {q[-1]} and {k[-1]}: {shapes}")
    if k[-2] != v[-2]:
        raise ValueError(f"every key needs a value, got {k[-2]} keys and {v[-2]} values: {shapes}")
    try:
        leading = torch.broadcast_shapes(q[:-2], k[:-2], v[:-2])
    except RuntimeError:
        raise ValueError(f"the axes before the last two do not broadcast: {shapes}") from None
    if mask is not None:
        check_mask(mask, (*leading, q[-2], k[-2]))


def check_mask(mask: Tensor, target: tuple[int, ...]) -> None:
    """Check that a mask is boolean and broadcasts to the shape ``target``, (..., T, S)."""
    if mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be a boolean tensor (True = may look), got {mask.dtype}; "
            "convert a mask of ones and zeros with mask.bool()"
        )
    tail = zip(reversed(mask.shape), reversed(target), strict=False)
    if mask.dim() > len(target) or any(have not in (1, want) for have, want in tail):
        raise ValueError(f"mask {tuple(mask.shape)} does not broadcast to (..., T, S) = {target}")


def check_widths(d_model: int, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Check that query, key and value (..., length, d_model) fit a ``MultiHeadAttention``."""
    for name, x in {"query": query, "key": key, "value": value}.items():
        if x.dim() < 2 or x.size(-1) != d_model:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, "
                f"but this layer was built for (B, length, {d_model})"
            )


def head_width(d_model: int, num_heads: int, width: int | None = None) -> int:
    """Return the width of one head: the given width, or d_model / num_heads.

    Paper: §3.2.2, d_k = d_v = d_model / h.
    Raises ValueError if a size is not positive, or if no width is given and num_heads does not
    divide d_model.
    """
    sizes = dict(d_model=d_model, num_heads=num_heads)
    check_sizes(**sizes if width is None else sizes | {"d_k or d_v": width})
    if width is None and d_model % num_heads:
        raise ValueError(
            f"d_model={d_model} cannot be split into num_heads={num_heads} equal heads "
            f"(remainder {d_model % num_heads}); choose a num_heads that divides d_model, "
            "or give d_k and d_v"
        )
    return width or d_model // num_heads


def check_sizes(**sizes: int) -> None:
    """Check that all sizes are positive; the message names all of them."""
    if min(sizes.values()) < 1:
        named = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise ValueError(f"expected positive integers, got {named}")


def check_width(x: Tensor, d_model: int) -> None:
    """Check that the last axis of x has size d_model."""
    if x.size(-1) != d_model:
        raise ValueError(f"expected vectors of width {d_model}, got shape {tuple(x.shape)}")


def check_same_shape(x: Tensor, output: Tensor) -> None:
    """Check that a sub-layer's output is a tensor of the same shape as its input."""
    if not isinstance(output, Tensor):
        raise ValueError(f"the sub-layer must return one tensor, not {type(output).__name__}")
    if output.shape != x.shape:
        raise ValueError(
            f"the sub-layer returned shape {tuple(output.shape)} for an input of shape "
            f"{tuple(x.shape)}, so the two cannot be added"
        )


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Check that a value is one of the choices; the message lists them."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {sorted(choices)}, got {value!r}")


def check_dropout(dropout: float) -> None:
    """Check that a dropout probability is in [0, 1]."""
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout must be a number in [0, 1], got {dropout!r}")


def check_fits(x: Tensor, table: Tensor, start: int = 0) -> None:
    """Check that x (..., L, d_model), from position start on, fits a table (max_len, d_model)."""
    max_len, d_model = table.shape
    if x.dim() < 2 or x.size(-1) != d_model:
        raise ValueError(f"expected vectors of width d_model={d_model}, got shape {tuple(x.shape)}")
    if start + x.size(-2) > max_len:
        raise ValueError(
            f"a sequence of {start + x.size(-2)} tokens does not fit max_len={max_len}; "
            "shorten it, or build the model with a larger max_len"
        )


def check_config(config: object, activations: Collection[str] = ()) -> None:
    """Check the hyperparameters of a ``TransformerConfig``, ``GPTConfig`` or ``ModernConfig``."""
    values = vars(config)
    for name, kind in get_annotations(type(config)).items():
        value = values[name]
        if kind is int and not (isinstance(value, int) and (value > 0 or name.endswith("_id"))):
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
    for name in ("init_std", "norm_eps"):
        if not 0 <= values.get(name, 0.0) < math.inf:
            raise ValueError(f"{name} must be a finite number of at least 0, got {values[name]!r}")
    check_dropout(values.get("dropout", 0.0))
    if "activation" in values:
        check_choice("activation", values["activation"], activations)
    num_heads = values["num_heads"]
    for width in ("d_k", "d_v"):
        head_width(values["d_model"], num_heads, values.get(width))
    check_kv_heads(num_heads, values.get("num_kv_heads", num_heads))
    if "rope_base" in values:
        d_k = head_width(values["d_model"], num_heads, values["d_k"])
        check_rope(d_k, values["rope_base"], values["rope_factors"])
    if "pad_id" in values:
        sizes = (values["src_vocab_size"], values["tgt_vocab_size"])
        check_vocabularies(*sizes, values["pad_id"], values["tie_embeddings"])


def check_vocabularies(
    src_vocab_size: int, tgt_vocab_size: int, pad_id: int, tie_embeddings: str
) -> None:
    """Check that a ``TransformerConfig``'s vocabularies, padding id and tied embeddings agree."""
    if pad_id not in range(min(src_vocab_size, tgt_vocab_size)):
        raise ValueError(
            f"pad_id={pad_id} must be an id in both vocabularies, which have "
            f"{src_vocab_size} and {tgt_vocab_size} tokens"
        )
    check_choice("tie_embeddings", tie_embeddings, ("all", "decoder", "none"))
    if tie_embeddings == "all" and src_vocab_size != tgt_vocab_size:
        raise ValueError(
            f"tie_embeddings='all' needs one shared vocabulary, got {src_vocab_size=} and "
            f"{tgt_vocab_size=}; "
            "use one vocabulary for both sides, or choose 'decoder' or 'none'"
        )


def check_kv_heads(num_heads: int, num_kv_heads: int) -> None:
    """Check that the query heads can share the KV heads evenly."""
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} heads cannot share {num_kv_heads} KV heads evenly")


def check_rope(d_k: int, base: float, factors: Sequence[float]) -> None:
    """Check that heads of width d_k can be rotated with this ``rope_base`` and ``rope_factors``."""
    if d_k % 2:
        raise ValueError(f"RoPE rotates pairs of columns, so d_k must be even, got {d_k}")
    if not 0 < base < math.inf:
        raise ValueError(f"rope_base must be a positive number, got {base!r}")
    if factors:
        check_factors(factors, d_k // 2)


def check_factors(factors: Sequence[float], pairs: int) -> None:
    """Check that rope_factors has one positive number for each pair of columns."""
    if len(factors) != pairs or not all(0 < factor < math.inf for factor in factors):
        raise ValueError(f"rope_factors must be {pairs} positive numbers, got {tuple(factors)}")


def check_ids(ids: Tensor, vocab_size: int, max_len: int, name: str, start: int = 0) -> None:
    """Check that an embedding can look up ids (B, L), which the message calls ``name``.

    They must be integers of shape (B, L), at least one and, with the ``start`` tokens before them,
    at most ``max_len``. The values are checked only on the CPU, and not in compiled code, because
    reading them from a GPU would make the program wait for it.
    """
    if ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} ids must be a tensor of integers (torch.long), got {ids.dtype}")
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
    check_range(ids, vocab_size, f"{name} ids")


def check_range(ids: Tensor, vocab_size: int, name: str, remedy: str = "") -> None:
    """Check that ids are from 0 to vocab_size - 1, but only on the CPU and not in compiled code."""
    if ids.device.type != "cpu" or torch.compiler.is_compiling():
        return
    low = int(ids.min())
    high = int(ids.max())
    if low < 0 or high >= vocab_size:
        raise ValueError(
            f"{name} range from {low} to {high}, "
            f"but the vocabulary has ids 0 to {vocab_size - 1}{remedy}"
        )


def check_targets(logits: Tensor, targets: Tensor) -> None:
    """Check that targets (...) fit logits (..., V) and are ids in the vocabulary."""
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits {tuple(logits.shape)} need targets {tuple(logits.shape[:-1])}, "
            f"got {tuple(targets.shape)}"
        )
    if targets.dtype != torch.int64 or targets.numel() == 0:
        raise ValueError(
            f"targets must be one or more integers (torch.long), got {targets.dtype} of shape "
            f"{tuple(targets.shape)}"
        )
    remedy = "; use pad_id, not -100, for targets that should be ignored, or leave them out"
    check_range(targets, logits.size(-1), "targets", remedy)


def check_untied(model: nn.Module, layers: Collection[tuple[str, nn.Linear]]) -> None:
    """Check that layers can be changed without changing another part of the model."""
    parameters = model.named_parameters(remove_duplicate=False)
    uses = Counter(id(parameter) for _, parameter in parameters)
    for name, linear in layers:
        if uses[id(linear.weight)] > 1:
            raise ValueError(
                f"{name} shares its weight with another part of the model, so an update would "
                f"change both; leave {name} out, or give it its own weight"
            )


def check_called(layers: Collection[tuple[nn.Module, str]]) -> None:
    """Raise ValueError if a torch module reads the weight of a layer instead of calling it."""
    for module, name in layers:
        if isinstance(module, nn.MultiheadAttention | nn.TransformerEncoderLayer):
            raise ValueError(
                f"torch's {type(module).__name__} reads the weight of {name} directly, so an "
                f"adapter would have no effect; leave {name} out, or use the course's layers"
            )


def check_unwrapped(model: nn.Module) -> None:
    """Raise ValueError if a model is wrapped, for example by DDP, and so has no ``config``."""
    inner = getattr(model, "module", None)
    if isinstance(inner, nn.Module) and not hasattr(model, "config"):
        raise ValueError(f"{type(model).__name__} wraps the model; pass the model's .module")


def check_truncation(length: int, stored: int) -> None:
    """Check that the first ``length`` of the stored tokens can be kept."""
    if length not in range(stored + 1):
        raise ValueError(
            f"length={length} must be an integer from 0 to {stored}, the number of stored tokens"
        )


def check_index(name: str, index: int, size: int) -> None:
    """Check that an index, counted from 0, is below ``size``; negative ones do not count."""
    if index not in range(size):
        raise ValueError(f"{name}={index} must be an integer from 0 to {size - 1}")


def check_same_batch(tgt: Tensor, memory: Tensor, src: Tensor) -> None:
    """Check that target (B, T), memory (B, S, d_model) and source (B, S) belong together."""
    if memory.shape[:2] != src.shape or len(tgt) != len(src):
        raise ValueError(
            f"target {tuple(tgt.shape)}, memory {tuple(memory.shape)} and source "
            f"{tuple(src.shape)} must have the same batch size, "
            "and memory and source the same length"
        )


def check_special_ids(bos_id: int, eos_id: int, pad_id: int, vocab_size: int) -> None:
    """Check that the ids of the special tokens are three different ids in the vocabulary."""
    ids = {token for token in (bos_id, eos_id, pad_id) if 0 <= token < vocab_size}
    if len(ids) < 3:
        raise ValueError(
            f"bos_id={bos_id}, eos_id={eos_id} and pad_id={pad_id} must be three different ids "
            f"from 0 to {vocab_size - 1}"
        )


def check_room(
    keys: Tensor, values: Tensor, stored_keys: Tensor | None, length: int, max_len: int
) -> None:
    """Check that keys (B, H, T, d_k) and values (B, H, T, d_v) continue an ``AttentionCache``."""
    if keys.dim() != 4 or keys.shape[:3] != values.shape[:3]:
        raise ValueError(
            f"keys {tuple(keys.shape)} and values {tuple(values.shape)} must have the shape "
            "(B, H, T, width), with the same B, H and T"
        )
    rows, new = len(keys), keys.size(2)
    stored_rows = rows if stored_keys is None else len(stored_keys)
    if rows != stored_rows or length + new > max_len:
        raise ValueError(
            f"{rows} rows of {new} new tokens do not continue {stored_rows} rows of {length} "
            f"tokens with room for {max_len}: reorder the rows, or choose a larger max_len"
        )


def check_continues(new: Tensor, stored: Tensor | None, name: str) -> None:
    """Raise ValueError if new keys or values have other heads or another width than stored ones."""
    if stored is not None and (new.size(1), new.size(3)) != (stored.size(1), stored.size(3)):
        raise ValueError(
            f"{name} {tuple(new.shape)} do not continue the stored {tuple(stored.shape)}: the "
            "heads and the width must stay the same"
        )


def check_rows(ids: Tensor, sources: int) -> None:
    """Check that every source has the same number of target rows."""
    if len(ids) % sources:
        raise ValueError(
            f"target {tuple(ids.shape)} has {len(ids)} rows for {sources} sources; each source "
            "needs the same number of rows"
        )


def check_scores(scores: Tensor, temperature: float) -> None:
    """Check that the softmax of every row of scores is defined; as in ``check_ids``, on the CPU."""
    if scores.device.type == "cpu" and not scores.amax(dim=-1).isfinite().all():
        raise ValueError(
            f"logits divided by temperature={temperature} contain nan, infinity, or a row without "
            "a finite score, so no token can be sampled; check the logits, or raise the temperature"
        )


def check_no_nan(logits: Tensor) -> None:
    """Raise ValueError if logits contain nan; like ``check_scores``, only on the CPU."""
    if logits.device.type == "cpu" and logits.isnan().any():
        raise ValueError("the logits contain nan; check the weights of the model with isfinite()")


def check_texts(texts: Sequence[str], references: Sequence[str]) -> None:
    """Raise ValueError unless there are as many texts as references, at least one, in two lists."""
    if isinstance(texts, str) or isinstance(references, str):
        raise ValueError("the texts and the references must be lists of strings, not one string")
    if not references or len(texts) != len(references):
        raise ValueError(f"{len(texts)} texts cannot be compared with {len(references)} references")


def first_line(error: BaseException) -> str:
    """Return the first line of an error message, cut to at most ``QUOTED`` characters."""
    return str(error).strip().partition("\n")[0][:QUOTED]
