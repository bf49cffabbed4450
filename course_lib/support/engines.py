"""What inference engines of all models share, and the choice between two of them."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.support.input_checks import check_rows, check_truncation

DRIVEN = r"(.*\.)?(positions|layers\.\d+|(self|cross)_attn|add_norm\d)"  # by an engine itself
COMMON = {"PositionalEncoding", "LearnedPositionalEmbedding", "AddNorm"}
KNOWN = {  # by the name of the model's class: the classes that its engine can drive
    "Transformer": {"EncoderLayer", "DecoderLayer", "MultiHeadAttention"} | COMMON,
    "GPT": {"GPTLayer", "CausalSelfAttention"} | COMMON,
    "ModernDecoder": {"ModernLayer", "GroupedQueryAttention", "ExtendedAttention"},
}


class Engine(ABC):
    """Score the next token step by step, with one ``AttentionCache`` for each layer.

    Create a new engine after any training, because an engine keeps copies of the old weights.
    """

    caches: Sequence[Any]  # of kv_cache.AttentionCache, which is defined above this module

    @property
    def length(self) -> int:
        """Return the number of tokens read so far."""
        return self.caches[0].length

    @abstractmethod
    def step(self, ids: Tensor, *, all_positions: bool = False) -> Tensor:
        """Read the new tokens (R, T), and score the next token of every row.

        Returns logits (R, V), or (R, T, V) with ``all_positions``. Raises ValueError if the ids
        cannot be appended to the tokens read so far.
        """

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Make row i continue row ``rows[i]``; optionally keep only the given ``sources``."""
        for cache in self.caches:
            cache.reorder(rows)

    def truncate(self, length: int) -> None:
        """Forget all tokens after the first ``length``."""
        for cache in self.caches:
            cache.truncate(length)


class RecomputingEngine(Engine):
    """Compute the same logits as an engine with a cache, but run the model on all tokens each time.

    ``decode(ids, *sources)`` returns logits (R, T, V). R must be a multiple of B, the
    length of each source's first axis.
    """

    def __init__(self, decode: Callable[..., Tensor], *sources: Tensor) -> None:
        self.decode = decode
        self.sources = sources
        self.ids: Tensor | None = None

    @property
    def length(self) -> int:
        """Return the number of tokens read so far."""
        return 0 if self.ids is None else self.ids.size(1)

    @torch.no_grad()
    def step(self, ids: Tensor, *, all_positions: bool = False) -> Tensor:
        """Read the new tokens (R, T), and return the last logits (R, V) or all logits (R, T, V)."""
        if self.ids is not None and len(ids) != len(self.ids):
            raise ValueError(f"{len(ids)} rows do not continue {len(self.ids)} rows; reorder them")
        for source in self.sources:
            check_rows(ids, len(source))
        read = ids if self.ids is None else torch.cat([self.ids, ids], dim=1)  # (R, length)
        shared = (x.repeat_interleave(len(ids) // len(x), dim=0) for x in self.sources)
        logits = self.decode(read, *shared)[:, -ids.size(1) :]  # (R, T, V)
        self.ids = read
        return logits if all_positions else logits[:, -1]

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Make row i continue row ``rows[i]``; optionally keep only the given ``sources``."""
        self.ids = None if self.ids is None else self.ids[rows]
        if sources is not None:
            self.sources = tuple(x[sources] for x in self.sources)

    def truncate(self, length: int) -> None:
        """Forget all tokens after the first ``length``."""
        check_truncation(length, self.length)
        self.ids = None if self.ids is None else self.ids[:, :length]


def choose_engine(
    model: nn.Module,
    has_engine: bool,
    build: Callable[[], Engine],
    recompute: Callable[[], RecomputingEngine],
) -> Engine:
    """Return ``build()`` if the model's class has its own engine, and otherwise ``recompute()``.

    An engine runs the model's parts itself. If one of them has a hook, a class that the engine
    cannot drive, or one that is neither the course's nor torch's nor from the model's package, the
    prefix is recomputed, too.
    """
    parts = model.named_modules()
    fits = has_engine and all(_is_original(name, part, model) for name, part in parts)
    return build() if fits else recompute()


def _is_original(name: str, part: nn.Module, model: nn.Module) -> bool:
    """Check that a part has no hooks, and a class that the model's engine can drive or call."""
    package, own = (type(each).__module__.partition(".")[0] for each in (part, model))
    known, kinds = package in ("course_lib", "torch", own), KNOWN.get(type(model).__name__)
    if kinds and re.fullmatch(DRIVEN, name):
        known = known and type(part).__name__ in kinds
    return known and not part._forward_hooks and not part._forward_pre_hooks


def joint_projection(attention: nn.Module) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """Return a function that computes queries, keys and values with one matrix multiplication.

    ``attention`` has the layers ``w_q``, ``w_k`` and ``w_v``. If one of them is not a plain linear
    layer (for example, an adapter or a quantized layer), each is called separately. The joined
    matrix is a copy of the weights. Shapes: (B, T, d_model) → three tensors (B, T, H * width).
    """
    layers: tuple[Any, ...] = (attention.w_q, attention.w_k, attention.w_v)
    if not all(_is_plain(layer) for layer in layers):
        return lambda x: tuple(layer(x) for layer in layers)
    weight = torch.cat([layer.weight for layer in layers])
    bias = None if layers[0].bias is None else torch.cat([layer.bias for layer in layers])
    sizes = [layer.out_features for layer in layers]
    return lambda x: F.linear(x, weight, bias).split(sizes, dim=-1)


def packed(layer: Any) -> Callable[[Tensor], Tensor]:
    """Return a function that computes what a linear layer does, faster for few rows on a CPU.

    It keeps a copy of the weights in the order in which oneDNN reads them. For a layer that is not
    plain or not in float32, or on another device, it returns the layer itself.
    """
    if not (_is_plain(layer) and torch.backends.mkldnn.is_available()):
        return layer
    weight = layer.weight.detach()
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return layer
    bias = None if layer.bias is None else layer.bias.detach()
    copy = torch.ops.mkldnn._reorder_linear_weight(weight)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, copy, bias, "none", [], "")


def _is_plain(layer: nn.Module) -> bool:
    """Check that a layer does nothing but multiply by its weight and add its bias."""
    hooks = (*layer._forward_hooks, *layer._forward_pre_hooks)
    return type(layer) is nn.Linear and type(layer.weight) is nn.Parameter and not hooks
