"""Probes that look inside a model while it runs: attention scores, dropout, nan, sharing."""

import math
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.probes.probed_model import Subject, a_probe
from course_lib.probes.residual_probes import layers_of

SMALL = 1.5  # standard deviation of scores that need no scale
BLOCKED = -1e4  # what a mask adds to a score, or less


@a_probe
def parts_used_once(subject: Subject) -> tuple | None:
    """No part with weights runs twice in a pass, except for embeddings."""
    calls: Counter[str] = Counter()
    for name, module in subject.model.named_modules():
        if next(module.parameters(recurse=False), None) is not None:
            if not isinstance(module, nn.Embedding):
                module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    subject.logits(*subject.batch())
    often = {name: count for name, count in calls.items() if count > 1}
    if often:
        name, count = next(iter(often.items()))
        hint = f"{name} runs {count} times in one pass"
        return False, f"{hint}: right only where weights are shared on purpose", often
    return True, "each part with weights runs once at most", often


@a_probe
def finite_numbers(subject: Subject) -> tuple | None:
    """Nothing is nan or infinite, in the model's own type, in bfloat16 and in float16."""
    ids = list(subject.batch())
    if subject.pad_id is not None:
        ids[0][1:, -2:] = subject.pad_id
    culprits: list[str] = []

    def trace(name: str, output: Any) -> None:
        """Note the first module that makes one."""
        first = output[0] if isinstance(output, tuple) and output else output
        first = getattr(first, "logits", first)
        if isinstance(first, Tensor) and first.is_floating_point() and not first.isfinite().all():
            culprits.append(name)

    for name, module in subject.model.named_modules():
        module.register_forward_hook(lambda m, i, out, name=name: trace(name or "the model", out))
    untried = []
    for kind in (None, torch.bfloat16, torch.float16):
        said = str(kind or "its own type").removeprefix("torch.")
        subject.model.to(kind)
        try:
            finite = subject.logits(*ids).isfinite().all()
        except RuntimeError as error:
            if "overflow" in str(error):
                return False, f"in {said}: {error}: masks want -inf, not a large number", said
            untried.append(said)
            continue
        if not finite:
            culprit = culprits[0] if culprits else "the model"
            hint = f"in {said}, {culprit} gives the first nan or infinity: look at what feeds it"
            return False, hint, culprit
    missing = f"; it cannot be called in {' and '.join(untried)}" if untried else ""
    return True, f"no nan, no infinity{missing}", ""


class _Scores(TorchFunctionMode):
    """Note how attention's scores are scaled, masked and turned into weights."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[tuple[Tensor, int]] = []
        self.found: list[tuple[float, int, float]] = []  # scale, width of queries, spread
        self.wrong: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "softmax":
            axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            self.read_softmax(kwargs.get("input", args[0] if args else None), axis)
        elif name == "scaled_dot_product_attention":
            given = dict(zip(("query", "key", "value", "attn_mask"), args, strict=False))
            self.read_kernel(**(given | kwargs))
        result = func(*args, **kwargs)
        if name in ("matmul", "__matmul__", "bmm", "einsum") and args:
            self.products.append((result.clone(), args[-1 if name == "einsum" else 0].size(-1)))
        return result

    def read_softmax(self, scores: Tensor, axis: int) -> None:
        """Compare what enters a softmax with the last product of its shape."""
        for product, width in reversed(self.products):
            if product.shape == scores.shape:
                if axis % scores.dim() != scores.dim() - 1:
                    self.wrong.append("the softmax of the scores is not over the keys")
                kept = (scores > BLOCKED) & (product.abs() > 1e-3 * product.abs().max())
                self.read_mask(scores > BLOCKED)
                ratios = scores[kept] / product[kept]
                if len(ratios) and ratios.std(correction=0) < 1e-3 * ratios.mean().abs():
                    self.found.append((ratios.mean().item(), width, scores[kept].std().item()))
                return

    def read_kernel(
        self, query: Tensor, key: Tensor, attn_mask: Tensor | None = None, **more: Any
    ) -> None:
        """Read what torch's kernel is called with."""
        if attn_mask is not None:
            self.read_mask(attn_mask if attn_mask.dtype == torch.bool else attn_mask > BLOCKED)
        scale = more.get("scale") or query.size(-1) ** -0.5
        shared = query.size(-3) // key.size(-3)  # queries for each key head
        keys = key.repeat_interleave(shared, dim=-3).transpose(-2, -1)
        self.found.append((scale, query.size(-1), scale * (query @ keys).std().item()))

    def read_mask(self, allowed: Tensor) -> None:
        """See whether every query may look at something."""
        if not allowed.any(dim=-1).all():
            self.wrong.append("a query may look at nothing, though no token is padding")


@a_probe
def attention_scores(subject: Subject) -> tuple | None:
    """Scores are divided by √d_k, every query has a key, and the softmax is over the keys.

    As in T5, scores that are small anyway need not be divided.
    """
    with _Scores() as seen:
        subject.logits(*subject.batch())
    if seen.wrong:
        return False, seen.wrong[0], seen.found
    if not seen.found:
        return None
    for scale, width, spread in seen.found:
        unscaled = abs(scale - 1) < 0.01 and spread < SMALL
        if not unscaled and abs(scale * math.sqrt(width) - 1) > 0.01:
            hint = f"scores of queries with {width} numbers are divided by {1 / scale:.3g}"
            return False, f"{hint}, √d_k is {math.sqrt(width):.3g}", seen.found
    return True, "scores are scaled by the width of one head", seen.found


class _DropoutRates(TorchFunctionMode):
    """Note at which rates dropout acts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "dropout" and kwargs.get("training", args[2] if len(args) > 2 else True):
            self.found.append(kwargs.get("p", args[1] if len(args) > 1 else 0.5))
        elif name == "scaled_dot_product_attention":
            self.found.append(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))
        return func(*args, **kwargs)


@a_probe
def dropout_rate(subject: Subject) -> tuple | None:
    """In training mode torch's dropout acts in every layer, at the rate asked for or not at all."""
    if subject.dropout is None:
        return None
    rates: dict[str, set[float]] = {}
    with _DropoutRates() as seen:

        def note(name: str) -> None:
            """Give a layer the rates found since the one before it."""
            rates[name] = set(seen.found) - {0.0}
            seen.found.clear()

        for name, layer in layers_of(subject.model).items():
            layer.register_forward_pre_hook(lambda *_: seen.found.clear())
            layer.register_forward_hook(lambda *_, name=name: note(name))
        subject.model.train()
        subject.logits(*subject.batch())
    wanted = {subject.dropout} - {0.0}
    for name, found in rates.items():
        if found != wanted:
            said = ", ".join(f"{rate:g}" for rate in sorted(found)) or "no rate"
            return False, f"{name} drops at {said}, asked for is {subject.dropout:g}", rates
    return (True, f"every layer drops at {subject.dropout:g}", rates) if rates else None
