"""Probes of how a model learns: its parameters, gradients and scales, and one batch by heart."""

import copy
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.probes.subject import (
    NOISE,
    ROUNDING,
    ROWS,
    TARGET,
    Subject,
    a_probe,
    difference,
    own_loss,
    shifted_loss,
)

STEPS = 150  # most steps to learn one batch
QK = ("query", "key")
SMALL = 1.5  # standard deviation of scores that need no scale
REGISTERED = ("_modules", "_parameters", "_buffers")


@a_probe("gradient reach")
def gradient_reach(subject: Subject) -> tuple | None:
    """Each parameter that is to learn gets a gradient that is not zero everywhere."""
    with torch.enable_grad():
        loss = own_loss(subject, *subject.batch())
        if not loss.requires_grad:
            return False, "the loss has no gradient: outputs are detached, or all is frozen", []
        subject.model.zero_grad()
        loss.backward()
    learning = {n: p for n, p in subject.model.named_parameters() if p.requires_grad}
    lost = [n for n, p in learning.items() if p.grad is None or not p.grad.any()]
    if lost:
        named = ", ".join(lost[:3]) + (", …" if len(lost) > 3 else "")
        return False, f"{len(lost)} of {len(learning)} parameters get no gradient: {named}", lost
    return True, f"all {len(learning)} parameters get a gradient", lost


def _hanging(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Find modules and tensors in an attribute, and in its lists and dictionaries."""
    if isinstance(value, (nn.Module, Tensor)):
        yield name, value
    elif isinstance(value, (list, tuple, dict)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            yield from _hanging(inner, f"{name}[{key!r}]")


@a_probe("parameters registered")
def parameters_registered(subject: Subject) -> tuple | None:
    """No module and no tensor that has a say hangs where ``parameters()`` does not find it."""
    known = {id(x) for x in (*subject.model.modules(), *subject.model.parameters())}
    known |= {id(buffer) for buffer in subject.model.buffers()}
    base = subject.logits(*subject.batch())
    found = []
    for owner, module in subject.model.named_modules():
        own = {
            k: v
            for k, v in vars(module).items()
            if k not in ("_modules", "_parameters", "_buffers")
        }
        for name, thing in _hanging(own, owner or "model"):
            if id(thing) not in known and _has_a_say(subject, thing, base):
                found.append(name.replace("['", ".").replace("']", ""))
    if found:
        return False, f"torch does not see {', '.join(found[:3])}: register it", found
    return True, "all that has a say is registered", found


def _has_a_say(subject: Subject, thing: Any, base: Tensor) -> bool:
    """Say whether something unregistered learns, or moves the logits when it changes."""
    if isinstance(thing, nn.Module):
        return any(True for _ in thing.parameters())
    if thing.requires_grad or not thing.is_floating_point():
        return thing.requires_grad
    kept = thing.clone()
    thing += torch.linspace(1, 2, thing.numel(), device=thing.device).view_as(thing)
    moved = not difference(subject.logits(*subject.batch()), base) < NOISE
    thing.copy_(kept)
    return moved


@a_probe("parts used once")
def parts_used_once(subject: Subject) -> tuple | None:
    """No part with weights runs twice in a pass, except for embeddings."""
    calls = Counter()
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


@a_probe("finite numbers")
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
            return False, f"in {said}, {culprit} makes the first nan or infinity", culprit
    missing = f"; it cannot be called in {' and '.join(untried)}" if untried else ""
    return True, f"no nan, no infinity{missing}", ""


class _Scales(TorchFunctionMode):
    """Note by what attention's scores are multiplied, the width of queries, and the spread."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[tuple[Tensor, int]] = []
        self.found: list[tuple[float, int, float]] = []
        self.axes: list[int] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "softmax":
            axis = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            self.compare(kwargs.get("input", args[0] if args else None), axis)
        elif name == "scaled_dot_product_attention":
            q, k = (kwargs.get(n, args[i] if len(args) > i else None) for i, n in enumerate(QK))
            scale = kwargs.get("scale") or q.size(-1) ** -0.5
            spread = (q @ k.transpose(-2, -1)).std().item() if q.size(1) == k.size(1) else 1.0
            self.found.append((scale, q.size(-1), scale * spread))
        result = func(*args, **kwargs)
        if name in ("matmul", "__matmul__", "bmm", "einsum") and args:
            self.products.append((result.clone(), args[-1 if name == "einsum" else 0].size(-1)))
        return result

    def compare(self, scores: Tensor, axis: int) -> None:
        """Compare what enters a softmax with the last product of its shape."""
        for product, width in reversed(self.products):
            if product.shape == scores.shape:
                self.axes.append(axis % scores.dim() - scores.dim())
                kept = (scores > -1e4) & (product.abs() > 1e-3 * product.abs().max())
                ratios = scores[kept] / product[kept]
                if len(ratios) and ratios.std(correction=0) < 1e-3 * ratios.mean().abs():
                    self.found.append((ratios.mean().item(), width, scores[kept].std().item()))
                return


@a_probe("attention scale")
def attention_scale(subject: Subject) -> tuple | None:
    """Scores are divided by √d_k; by nothing, as in T5, only where they are small anyway."""
    with _Scales() as seen:
        subject.logits(*subject.batch())
    if any(axis != -1 for axis in seen.axes):
        return False, "the softmax of the scores is not over their last axis, the keys"
    if not seen.found:
        return None
    for scale, width, spread in seen.found:
        unscaled = abs(scale - 1) < 0.01 and spread < SMALL
        if not unscaled and abs(scale * math.sqrt(width) - 1) > 0.01:
            hint = f"scores of queries with {width} numbers are divided by {1 / scale:.3g}"
            return False, f"{hint}, √d_k is {math.sqrt(width):.3g}", seen.found
    return True, "scores are scaled by the width of one head", seen.found


@a_probe("initial loss")
def initial_loss(subject: Subject) -> tuple | None:
    """A fresh model's loss is near ln V: it holds no token for much likelier than another."""
    loss = own_loss(subject, *subject.batch())
    even = math.log(subject.logits(*subject.batch()).size(-1))
    said = f"the first loss is {loss:.2f} nats, ln V is {even:.2f}"
    if not even - 0.5 < loss < even + 2:
        return False, f"{said}: a start at the wrong scale, or a model that is trained", loss.item()
    return True, said, loss.item()


@a_probe("overfit one batch")
def overfit_one_batch(subject: Subject) -> tuple | None:
    """Four short rows are learned by heart: four words, so that only the context tells them."""
    ids = list(subject.batch(words=4, length=TARGET + 1))
    if not subject.reads_source:
        ids[0][:, 0] = subject.tokens(torch.arange(ROWS, device=ids[0].device))
    hints = []
    start = copy.deepcopy(subject.model.state_dict())
    for rate in (3e-3, 3e-4):
        subject.model.load_state_dict(start)
        losses = _learn(subject, ids, rate)
        loss, logits = shifted_loss(subject, *ids)
        right = (logits.argmax(-1) == ids[-1][:, 1:]).float().mean().item()
        bound = 0.2 if subject.loss is None else 0.5 * math.log(logits.size(-1))
        said = f"after {len(losses)} steps the loss is {losses[-1]:.2f}, {right:.0%} are right"
        if right == 1 and losses[-1] < bound:
            return True, said, losses
        hints.append(_why_not(said, logits, ids[-1]))
    return False, hints[0], losses


def _learn(subject: Subject, ids: list[Tensor], rate: float) -> list[float]:
    """Learn a batch by heart, in eval mode; return the losses."""
    optimizer = torch.optim.Adam(subject.model.parameters(), lr=rate, betas=(0.9, 0.98))
    losses: list[float] = []
    while len(losses) < STEPS and not (losses and losses[-1] < 0.05):
        with torch.enable_grad():
            loss = own_loss(subject, *ids)
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@a_probe("loss per token")
def loss_per_token(subject: Subject) -> tuple | None:
    """Your loss of a batch is the mean over its real tokens, however long the rows are."""
    if subject.loss is None:
        return None
    *source, text = subject.batch(length=TARGET + 1)
    lengths = [text.size(1) - (0 if subject.pad_id is None else row) for row in range(ROWS)]
    alone, padded = 0.0, text.clone()
    for row, length in enumerate(lengths):
        rows = (each[[row]] for each in source)
        loss = subject.loss(subject.model, *rows, text[[row], :length]).item()
        alone += (length - 1) * loss / (sum(lengths) - ROWS)
        padded[row, length:] = text[row, 0] if subject.pad_id is None else subject.pad_id
    together = subject.loss(subject.model, *source, padded).item()
    said = f"together {together:.3f}, from single rows {alone:.3f} nats per token"
    if not abs(together - alone) <= ROUNDING * abs(alone):
        return False, f"{said}: look at padding, and at what the sum is divided by"
    return True, said


def _why_not(said: str, logits: Tensor, text: Tensor) -> str:
    """Tell the usual reasons by what the model gives."""
    probabilities = (logits >= 0).all() and (logits.sum(-1) - 1).abs().max() < 1e-3
    if probabilities:
        return f"{said}: it returns probabilities, and cross-entropy applies a softmax of its own"
    if (logits.argmax(-1) == text[:, :-1]).all():
        return f"{said}: it repeats the token it reads, as if the labels were not shifted"
    return said
