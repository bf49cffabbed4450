"""A probe of attention scores: how they are scaled, masked and turned into weights."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.probes.probed_model import SOURCE, TARGET, Finding, ProbedModel, as_probe

MODERATE = 1.5  # standard deviation of scores whose softmax is not saturated
BLOCKED = -1e4  # a mask adds at most this number to a score that it blocks
PRODUCTS = ("matmul", "__matmul__", "bmm", "einsum")
TIMES = ("mul", "multiply", "__mul__", "__rmul__")
OVER = ("div", "divide", "true_divide", "__truediv__")


class _Scaling(NamedTuple):
    """The factor by which an attention layer multiplied its scores, and the layer's sizes."""

    scale: float
    width: int  # of the queries
    keys: int
    deviation: float  # of the scores after the scaling


class _ScoreReader(TorchFunctionMode):
    """Record how attention scores are scaled, masked and turned into weights."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[tuple[Tensor, int]] = []
        self.scaled: dict[int, tuple[Tensor, float]] = {}  # by storage, which views share
        self.scalings: list[_Scaling] = []
        self.mistakes: list[str] = []

    def __torch_function__(
        self, func: Callable, types: Iterable, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Inspect the arguments of each torch function, and call it."""
        options = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "softmax":
            axis = options.get("dim", args[1] if len(args) > 1 else -1)
            self.read_softmax(options["input"] if "input" in options else args[0], axis)
        elif name == "scaled_dot_product_attention":
            named = dict(zip(("query", "key", "value", "attn_mask"), args, strict=False))
            self.read_kernel(**(named | options))
        result = func(*args, **options)
        if name in (*TIMES, *OVER):
            self.read_factor(name, args, result)
        if name in PRODUCTS and args and isinstance(result, Tensor):
            given = args[-1] if name == "einsum" else args
            pair = given if isinstance(given, tuple | list) else args[1:]
            scale = math.prod(self.factor_of(x) for x in pair if isinstance(x, Tensor))
            self.products.append((result.clone() / scale, pair[0].size(-1)))
        return result

    def read_factor(self, name: str, args: tuple, result: Any) -> None:
        """Remember by which number a tensor was multiplied, such as a query before its product."""
        tensors = [x for x in args if isinstance(x, Tensor)]
        numbers = [x for x in args if isinstance(x, int | float) and x]
        if len(tensors) == len(numbers) == 1 and isinstance(result, Tensor):
            factor = numbers[0] if name in TIMES else 1 / numbers[0]
            place = result.untyped_storage().data_ptr()
            self.scaled[place] = result, factor * self.factor_of(tensors[0])

    def factor_of(self, x: Tensor) -> float:
        """Return the number by which a tensor was multiplied, or 1."""
        return self.scaled.get(x.untyped_storage().data_ptr(), (x, 1.0))[1]

    def read_softmax(self, scores: Tensor, axis: int) -> None:
        """Compare the input to a softmax with the latest matrix product of the same shape."""
        for product, width in reversed(self.products):
            if product.shape == scores.shape:
                if axis % scores.dim() != scores.dim() - 1:
                    self.mistakes.append("the softmax of the scores is not over the keys")
                allowed = scores > BLOCKED
                compared = allowed & (product.abs() > 1e-3 * product.abs().max())
                self.read_mask(allowed)
                ratios = scores[compared] / product[compared]
                if len(ratios) and ratios.std(correction=0) < 1e-3 * ratios.mean().abs():
                    deviation = scores[compared].std().item()
                    self.note(ratios.mean().item(), width, scores.size(-1), deviation)
                return

    def read_kernel(
        self, query: Tensor, key: Tensor, attn_mask: Tensor | None = None, **options: Any
    ) -> None:
        """Read the arguments of torch's attention kernel."""
        if attn_mask is not None:
            self.read_mask(attn_mask if attn_mask.dtype == torch.bool else attn_mask > BLOCKED)
        scale = options.get("scale") or query.size(-1) ** -0.5
        queries_per_key_head = query.size(-3) // key.size(-3)
        keys = key.repeat_interleave(queries_per_key_head, dim=-3).transpose(-2, -1)
        deviation = scale * (query @ keys).std().item()
        scale *= self.factor_of(query) * self.factor_of(key)
        self.note(scale, query.size(-1), key.size(-2), deviation)

    def note(self, scale: float, width: int, keys: int, deviation: float) -> None:
        """Record the scaling of one attention layer."""
        self.scalings.append(_Scaling(scale, width, keys, deviation))

    def read_mask(self, allowed: Tensor) -> None:
        """Check that each query may attend to a key; skip tiles, which may be all padding."""
        whole = allowed.dim() < 2 or allowed.size(-2) in (1, SOURCE, TARGET)
        if whole and not allowed.any(dim=-1).all():
            self.mistakes.append(
                "a query cannot attend to any key, even though no token is padding"
            )


@as_probe
def attention_scores(probed: ProbedModel) -> Finding | None:
    """Scores are divided by √d_k, each query may attend to a key, and the softmax is over the keys.

    ``attention_scale`` or the model's configuration may ask for a different scale. Any other scale
    raises an alarm if it is larger and saturates the softmax, or if it is a common mistake.
    """
    with _ScoreReader() as reader:
        probed.logits(*probed.batch())
    if reader.mistakes:
        return False, reader.mistakes[0], reader.scalings
    if not reader.scalings:
        return None
    intended = {probed.attention_scale} if probed.attention_scale else _scales_of(probed.model)
    others = set()
    for seen in reader.scalings:
        right = seen.width**-0.5
        if any(math.isclose(seen.scale, scale, rel_tol=0.01) for scale in {right, *intended}):
            continue
        hint = f"with {seen.width} numbers per query, scores are divided by {1 / seen.scale:.3g}"
        if _is_mistake(seen, probed.model):
            hint = f"{hint} instead of √d_k = {1 / right:.3g}"
            return False, f"{hint}: pass attention_scale= if this is intended", reader.scalings
        others.add(hint)
    return True, min(others, default="scores are scaled by the width of the heads"), reader.scalings


def _scales_of(model: nn.Module) -> set[float]:
    """Find the scales that a model's configuration asks for: a factor, a divisor or a width."""
    scales: set[float] = set()
    for name, value in vars(getattr(model, "config", model)).items():
        about_scores = any(word in name for word in ("attn", "attention", "softmax"))
        is_scale = any(word in name for word in ("scal", "multiplier"))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if about_scores and is_scale and is_number and value > 0:
            scales |= {value, 1 / value, value**-0.5}
    return scales


def _is_mistake(seen: _Scaling, model: nn.Module) -> bool:
    """Return whether a scale saturates the softmax, or is computed from the wrong size."""
    if seen.scale > seen.width**-0.5:
        return seen.deviation > MODERATE
    widths = {
        module.embedding_dim for module in model.modules() if isinstance(module, nn.Embedding)
    }
    wrong_scales = {1 / seen.width, seen.keys**-0.5, *(width**-0.5 for width in widths)}
    return any(math.isclose(seen.scale, wrong, rel_tol=0.01) for wrong in wrong_scales)
