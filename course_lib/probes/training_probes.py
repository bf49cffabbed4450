"""Probes of how a model learns: parameters, gradients and losses, and one batch by heart."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.probes.probed_model import (
    NOISE,
    ROUNDING,
    ROWS,
    TARGET,
    Subject,
    a_probe,
    difference,
    logits_of,
    own_loss,
    shifted_loss,
)

STEPS = 250  # most steps to learn one batch
LEARNED = 0.02  # a mean loss at which each of the batch's tokens has a probability above one half
REGISTERED = ("_modules", "_parameters", "_buffers")


@a_probe
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


@a_probe
def parameters_registered(subject: Subject) -> tuple | None:
    """No module and no tensor that has a say hangs where ``parameters()`` does not find it."""
    known = {id(x) for x in (*subject.model.modules(), *subject.model.parameters())}
    known |= {id(buffer) for buffer in subject.model.buffers()}
    base = subject.logits(*subject.batch())
    found = []
    for owner, module in subject.model.named_modules():
        own = {name: value for name, value in vars(module).items() if name not in REGISTERED}
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


@a_probe
def initial_loss(subject: Subject) -> tuple | None:
    """A fresh model's loss is near ln V: it holds no token for much likelier than another."""
    loss = own_loss(subject, *subject.batch())
    even = math.log(subject.logits(*subject.batch()).size(-1))
    said = f"the first loss is {loss:.2f} nats, ln V is {even:.2f}"
    if not even - 0.5 < loss < even + 2:
        return False, f"{said}: a start at the wrong scale, or a model that is trained", loss.item()
    return True, said, loss.item()


@a_probe
def overfit_one_batch(subject: Subject) -> tuple | None:
    """Three short rows are learned by heart: of four words, so that only the context tells them."""
    ids = list(subject.batch(words=4, length=TARGET + 1))
    if not subject.reads_source:
        ids[0][:, 0] = subject.tokens(torch.arange(ROWS, device=ids[0].device))
    losses = _learn(subject, ids)
    _, logits = shifted_loss(subject, *ids)
    right = (logits.argmax(-1) == ids[-1][:, 1:]).float().mean().item()
    bound = 0.2 if subject.loss is None else 0.5 * math.log(logits.size(-1))
    said = f"after {len(losses)} steps the loss is {losses[-1]:.2f}, {right:.0%} are right"
    if right == 1 and losses[-1] < bound:
        return True, said, losses
    if (logits.argmax(-1) == ids[-1][:, :-1]).all():
        said += ": it repeats the token it reads, as if the labels were not shifted"
    return False, said, losses


def _learn(subject: Subject, ids: list[Tensor]) -> list[float]:
    """Learn a batch by heart, in eval mode; return the losses."""
    widest = max(parameter.size(-1) for parameter in subject.model.parameters() if parameter.dim())
    rate = 0.02 / math.sqrt(widest)
    optimizer = torch.optim.Adam(subject.model.parameters(), lr=rate, betas=(0.9, 0.98))
    losses: list[float] = []
    for _ in range(STEPS):
        with torch.enable_grad():
            loss = own_loss(subject, *ids)
        losses.append(loss.item())
        if losses[-1] < LEARNED:
            break  # before a step that could change an answer again
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


@a_probe
def loss_per_token(subject: Subject) -> tuple | None:
    """Your loss is the mean over real tokens, however long the rows are, and keeps the mode."""
    if subject.loss is None:
        return None
    *source, text = subject.batch(length=TARGET + 1)
    subject.loss(subject.model.train(), *source, text)
    if not subject.model.training:
        return False, "your loss leaves the model in eval mode, in which dropout is off"
    subject.model.eval()
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


@a_probe
def loss_targets(subject: Subject) -> tuple | None:
    """Your loss pulls each position's probabilities to a distribution around the next token.

    The gradient of a mean cross-entropy is (p - q) / n: from it q, the target, is read.
    """
    if subject.loss is None:
        return None
    *source, text = subject.batch(length=TARGET + 1)
    if subject.pad_id is not None:
        text[0, -2:] = subject.pad_id
    loss, given = _loss_and_logits(subject, *source, text)
    if not given or given[0].grad is None or given[0].size(1) != text.size(1) - 1:
        return False, "no gradient reaches logits of every position but the last"
    wanted = text[:, 1:]  # (B, T)
    real = wanted != (-1 if subject.pad_id is None else subject.pad_id)  # (B, T)
    if given[0].grad[~real].any():
        return False, "targets that are padding have a say"
    q = (given[0].softmax(-1) - given[0].grad * real.sum())[real]  # (n, V)
    if (q.argmax(-1) != wanted[real]).any():
        return False, "a target is not the next token: look at the shift"
    if q.min() < -1e-3 or (q.sum(-1) - 1).abs().max() > 1e-3:
        return False, "the targets are no probabilities, or the loss is no mean over real tokens"
    if subject.pad_id is not None and q[:, subject.pad_id].max() > 1e-4:
        return False, "padding is among what is to be predicted: it gets smoothing mass"
    entropy = -(q * given[0].log_softmax(-1)[real]).sum(-1).mean()
    if not torch.isclose(loss, entropy, rtol=1e-3):
        hint = f"the loss is {loss:.3f}, the cross-entropy with its own targets {entropy:.3f}"
        return False, f"{hint}: a divergence leaves out the entropy of the targets"
    return True, f"the next token is to get {q.max(-1).values.mean():.3f}"


def _loss_and_logits(subject: Subject, *ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Compute the subject's own loss; return it, and the logits on the way with their gradient."""
    given: list[Tensor] = []

    def keep(module: nn.Module, read: tuple, output: Any) -> None:
        """Keep the logits, and their gradient."""
        given.append(logits_of(output))
        given[-1].retain_grad()

    subject.model.register_forward_hook(keep)
    with torch.enable_grad():
        loss = own_loss(subject, *ids)
        if loss.requires_grad:
            loss.backward()
    return loss, given
