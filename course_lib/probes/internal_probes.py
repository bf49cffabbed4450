"""Probes that look inside a model while it runs: attention scores, residual paths, nan, sharing."""

import copy
import math
from collections import Counter
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.probes.probed_model import ROUNDING, Subject, a_probe, difference

SMALL = 1.5  # standard deviation of scores that need no scale
FORGOTTEN = 0.1  # a move of the logits that an epsilon does not explain
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
        hint = (
            f"{name} runs {count} times in one pass: right only where weights are shared on purpose"
        )
        return False, hint, often
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


@a_probe
def residual_paths(subject: Subject) -> tuple | None:
    """A layer whose matrices are zero hands its input on, as it is or normalized."""
    layers = _layers(subject.model)
    lost: list[str] = []

    def compare(name: str, given: tuple, output: Any) -> None:
        """Note a layer that does not hand on what it reads."""
        answer = output[0] if isinstance(output, tuple) else output
        if given and isinstance(given[0], Tensor) and given[0].shape == answer.shape:
            if not any(torch.allclose(answer, x, atol=1e-2) for x in _handed_on(given[0])):
                lost.append(name)

    for name, layer in layers.items():
        _silence(layer)
        layer.register_forward_hook(lambda m, given, out, name=name: compare(name, given, out))
    subject.logits(*subject.batch())
    if lost:
        hint = f"with its matrices at zero, {lost[0]} does not hand on what it reads"
        return False, f"{hint}: a residual path is missing, or added twice", lost
    return (True, "every layer hands on what it reads", lost) if layers else None


def _layers(model: nn.Module) -> dict[str, nn.Module]:
    """Find the layers by name: what stands in a ``ModuleList`` and has parts, outermost only."""
    found: dict[str, nn.Module] = {}
    for name, group in model.named_modules():
        inside = any(f"{name}.".startswith(f"{layer}.") for layer in found)
        if isinstance(group, nn.ModuleList) and not inside:
            parts = ((f"{name}.{place}", layer) for place, layer in group.named_children())
            found.update((place, layer) for place, layer in parts if any(layer.children()))
    return found


@a_probe
def final_norm(subject: Subject) -> tuple | None:
    """Behind a stack of pre-norm layers stands a norm: the scale of its input moves no logits."""
    last = {name.rpartition(".")[0]: name for name in _layers(subject.model)}
    base = subject.logits(*subject.batch())
    stacks = []
    for name in last.values():
        layer = subject.model.get_submodule(name)
        read: list[tuple] = []
        keep = partial(lambda into, _, *given: into.append(given), read)
        handles = [
            layer.register_forward_pre_hook(keep, with_kwargs=True),
            layer.register_forward_hook(lambda _, given, out: _scaled(out)),
        ]
        moved = difference(subject.logits(*subject.batch()), base)
        for handle in handles:
            handle.remove()
        if read and _is_pre_norm(layer, *read[0]):
            stacks.append(name)
            if moved > FORGOTTEN:
                hint = f"the layers up to {name} are pre-norm, and no norm stands behind them"
                return False, hint, moved
    return (True, "a norm stands behind every pre-norm stack", stacks) if stacks else None


def _scaled(output: Any) -> Any:
    """Multiply what a layer returns, or the first thing of it."""
    return (3 * output[0], *output[1:]) if isinstance(output, tuple) else 3 * output


def _is_pre_norm(layer: nn.Module, given: tuple, named: dict) -> bool:
    """Say whether a layer without its matrices hands on its input at any scale."""
    silent = copy.deepcopy(layer)
    _silence(silent)
    if not given:
        return False
    output = silent(3 * given[0], *given[1:], **named)
    answer = output[0] if isinstance(output, tuple) else output
    return answer.shape == given[0].shape and difference(answer, 3 * given[0]) < ROUNDING


def _silence(layer: nn.Module) -> None:
    """Set all matrices of a layer to zero, with their biases, and its norms to their start."""
    for module in layer.modules():
        own = dict(module.named_parameters(recurse=False))
        a_norm = all(parameter.dim() < 2 for parameter in own.values())
        for name, parameter in own.items():
            parameter.fill_(1.0 if a_norm and "bias" not in name else 0.0)


def _handed_on(x: Tensor) -> tuple[Tensor, ...]:
    """Return what a layer may make of its input: itself, or normalized in either way."""
    centred = x - x.mean(dim=-1, keepdim=True)
    return x, centred / centred.std(dim=-1, correction=0, keepdim=True), x / _size(x)


def _size(x: Tensor) -> Tensor:
    """Return the root of the mean square of each vector."""
    return x.square().mean(dim=-1, keepdim=True).sqrt()


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

        for name, layer in _layers(subject.model).items():
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
