"""A model to be probed: how it is called, ids to feed it, and a copy that a probe may spoil."""

import copy
import functools
import html
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS, SOURCE, TARGET = 3, 5, 7  # sizes of what a model is fed
NOISE = 1e-6  # of the largest logit: what rounding does between calls of the same shapes
ROUNDING = 1e-4  # the same between calls of different shapes
PROBES: list[Callable] = []


@dataclass(frozen=True, repr=False)
class ProbeResult:
    """Say what a probe found; in a notebook it shows itself.

    Args:
        name: What was tried.
        passed: Whether it holds.
        hint: What was seen, and where it does not hold: what to look for.
        data: The numbers behind it, by name; ``course_lib.viz`` draws some of them.
    """

    name: str
    passed: bool
    hint: str
    data: Any = None

    def __repr__(self) -> str:
        """Show it as a line of text."""
        return f"{'✓' if self.passed else '✗'} {self.name}: {self.hint}"

    def _repr_html_(self) -> str:
        """Show the same as a line with a coloured edge."""
        colour = "#009E73" if self.passed else "#D55E00"
        style = f"border-left: 4px solid {colour}; padding: 4px 12px"
        return f'<div role="status" style="{style}">{html.escape(str(self))}</div>'


@dataclass(frozen=True)
class Subject:
    """Hold a model and how it is called; ``adapt`` makes it.

    Args:
        model: Ids in, logits out.
        vocab_size: Ids are drawn below it; where source and target differ, the smaller number.
        pad_id: Padding, if the model knows any.
        call: Called with the model and its ids, returns logits ``(B, T, V)``.
        reads_source: Whether the ids are source ``(B, S)`` and target ``(B, T)``, or a text alone.
        loss: As in ``probe``, like ``generate``, ``bos_id`` and ``dropout``.
    """

    model: nn.Module
    vocab_size: int
    pad_id: int | None
    call: Callable[..., Tensor]
    reads_source: bool
    loss: Callable[..., Tensor] | None = None
    generate: Callable[..., Tensor] | None = None
    bos_id: int | None = None
    dropout: float | None = None

    def logits(self, *ids: Tensor) -> Tensor:
        """Score the ids ``(B, T, V)``; what is random is drawn from the same seed each time."""
        torch.manual_seed(0)
        return self.call(self.model, *ids)

    def tokens(self, indices: Tensor) -> Tensor:
        """Turn any whole numbers into ids that are words, no padding."""
        words = self.vocab_size - (self.pad_id is not None)
        ids = indices % words
        return ids if self.pad_id is None else ids + (ids >= self.pad_id).long()

    def other(self, ids: Tensor) -> Tensor:
        """Put another word in place of each."""
        indices = ids if self.pad_id is None else ids - (ids > self.pad_id).long()
        return self.tokens(indices + 1)

    def batch(self, words: int = 10**6, length: int = TARGET) -> tuple[Tensor, ...]:
        """Draw ids, the same each time, of so many different words at most."""
        generator = torch.Generator().manual_seed(1)
        device = next(self.model.parameters(), torch.empty(0)).device
        sizes = ([SOURCE] if self.reads_source else []) + [length]
        drawn = [torch.randint(words, (ROWS, size), generator=generator) for size in sizes]
        if self.reads_source:
            drawn[1][:, 0] = 0
        ids = [self.tokens(indices).to(device) for indices in drawn]
        if self.reads_source and self.bos_id is not None:
            ids[1][:, 0] = self.bos_id
        return tuple(ids)


def logits_of(output: Any) -> Tensor:
    """Find the logits in what a model returns: a tensor, a tuple's first, or ``.logits``.

    A token that may never be written, with -inf everywhere, gets the least score of its position.
    """
    output = getattr(output, "logits", output)
    logits = output[0] if isinstance(output, tuple) else output
    if not isinstance(logits, Tensor) or logits.dim() != 3:
        raise ValueError("the model returns no logits of shape (B, T, V): adapt it with forward=")
    never = logits.isneginf().flatten(0, 1).all(dim=0)  # (V,)
    if never.all() or not never.any():
        return logits
    return torch.where(never, logits[..., ~never].amin(dim=-1, keepdim=True), logits)


def adapt(
    model: nn.Module,
    *,
    vocab_size: int,
    pad_id: int | None = None,
    forward: Callable[..., Any] | None = None,
    **more: Any,
) -> Subject:
    """Learn how a model is called, and call it once; the arguments are those of ``probe``.

    Raises:
        ValueError: If the vocabulary has fewer than 6 words, or the model cannot be called.
    """
    if vocab_size < 6 + (pad_id is not None):
        raise ValueError(f"the probes need 6 words besides padding, got {vocab_size=}")
    asked = inspect.signature(forward or model.forward)
    arguments = [None] * (1 + (forward is not None))
    try:
        asked.bind(*arguments)
        reads_source = False
    except TypeError:
        reads_source = True
    chosen = forward or (lambda model, *ids: model(*ids))

    def call(model: nn.Module, *ids: Tensor) -> Tensor:
        """Call the model, and find the logits."""
        return logits_of(chosen(model, *ids))

    subject = Subject(model, vocab_size, pad_id, call, reads_source, **more)
    try:
        _alone(subject, lambda s: s.logits(*s.batch()))
    except (TypeError, RuntimeError, IndexError, AttributeError, ValueError) as error:
        words = "source and target" if reads_source else "ids"
        way = f"see forward=, or is vocab_size={vocab_size} too large?"
        raise ValueError(
            f"the model cannot be called with {words} ({first_line(error)}): {way}"
        ) from error
    return subject


def first_line(error: Exception) -> str:
    """Return what an error says, in a line."""
    return str(error).strip().partition("\n")[0]


def _alone(subject: Subject, function: Callable[[Subject], Any]) -> Any:
    """Run something on a copy in eval mode, without gradients, and keep the random state."""
    model = copy.deepcopy(subject.model)
    if any(p.dtype in (torch.float16, torch.bfloat16) for p in model.parameters()):
        model = model.float()
    devices = {p.device.index or 0 for p in model.parameters() if p.is_cuda}
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        return function(replace(subject, model=model.eval()))


def a_probe(function: Callable) -> Callable[[Subject], ProbeResult | None]:
    """Make a function a probe of its own name, and note it among ``PROBES``.

    It gets a copy, and returns whether its claim holds, a hint and data.
    """

    @functools.wraps(function)
    def run(subject: Subject) -> ProbeResult | None:
        """Run it on a copy; ``None`` where it does not apply."""
        try:
            found = _alone(subject, function)
        except Exception as error:
            found = False, f"{type(error).__name__}: {first_line(error)}"
        name = function.__name__.replace("_", " ")
        return None if found is None else ProbeResult(name, *found)

    PROBES.append(run)
    return run


def difference(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, in units of the largest number; ``inf`` for nan."""
    gap = (a - b).abs().max() / b.abs().max().clamp(min=1e-30)
    return math.inf if gap.isnan() else gap.item()


def own_loss(subject: Subject, *ids: Tensor) -> Tensor:
    """Compute the loss that the model is trained with, as far as it is known."""
    if subject.loss is None:
        return shifted_loss(subject, *ids)[0]
    return subject.loss(subject.model, *ids)


def shifted_loss(subject: Subject, *ids: Tensor) -> tuple[Tensor, Tensor]:
    """Predict each next token; return the mean loss in nats, and the logits ``(B, T, V)``."""
    *source, text = ids
    logits = subject.logits(*source, text[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten()), logits
