"""Probes of how a model learns: parameters, gradients and losses, and one memorized batch."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.probes.probed_model import (
    NOISE,
    ROUNDING,
    ROWS,
    TARGET,
    Finding,
    ProbedModel,
    as_probe,
    as_probe_of_first_weights,
    difference,
    find_logits,
    shifted_loss,
)

FIRST_STEPS = 5  # in which a gradient reaches every parameter
STEPS = 250  # to learn one batch; up to four times as many while the loss still falls
LEARNED = 0.02  # a mean loss at which each of the batch's tokens has a probability above one half
REGISTERED = ("_modules", "_parameters", "_buffers")


@as_probe_of_first_weights
def gradient_reach(probed: ProbedModel) -> Finding:
    """Within a few steps, each trainable parameter gets a gradient that is not all zeros.

    One step is not enough for parameters behind an output projection that starts at zero, or for
    experts that few tokens reach. We use training mode, because some routers learn only then.
    """
    learning = {n: p for n, p in probed.model.train().named_parameters() if p.requires_grad}
    if not learning:
        return False, "every parameter is frozen", []
    unreached = dict(learning)
    optimizer = torch.optim.Adam(learning.values(), lr=0.01)
    for step in range(FIRST_STEPS):
        with torch.enable_grad():
            loss = probed.own_loss(*probed.batch(seed=step + 1))
        if not loss.requires_grad:
            return False, "the loss has no gradient, so the outputs are detached", []
        optimizer.zero_grad()
        loss.backward()
        unreached = {n: p for n, p in unreached.items() if p.grad is None or not p.grad.any()}
        if not unreached:
            return True, f"all {len(learning)} parameters get a gradient", []
        optimizer.step()
    names = list(unreached)
    listed = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return False, f"{len(names)} of {len(learning)} parameters get no gradient: {listed}", names


def _attached(value: object, name: str) -> Iterator[tuple[str, nn.Module | Tensor]]:
    """Find the modules and tensors in an attribute, including those in lists and dictionaries."""
    if isinstance(value, (nn.Module, Tensor)):
        yield name, value
    elif isinstance(value, (list, tuple, dict)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            yield from _attached(inner, f"{name}[{key!r}]")


@as_probe
def parameters_registered(probed: ProbedModel) -> Finding:
    """Every module and tensor that affects the logits is where ``parameters()`` finds it."""
    model = probed.model
    registered = {id(x) for x in (*model.modules(), *model.parameters(), *model.buffers())}
    base = probed.logits(*probed.batch())
    unregistered = []
    for owner, module in model.named_modules():
        own = {name: value for name, value in vars(module).items() if name not in REGISTERED}
        for name, thing in _attached(own, owner or "model"):
            if id(thing) not in registered and _matters(probed, thing, base):
                unregistered.append(name.replace("['", ".").replace("']", ""))
    if unregistered:
        listed = ", ".join(unregistered[:3])
        return False, f"torch does not see {listed}: register it", unregistered
    return True, "everything that affects the logits is registered", unregistered


class _Moves(TorchFunctionMode):
    """Record whether a tensor, or a part of it, is moved to another tensor's device or type."""

    def __init__(self, watched: Tensor) -> None:
        super().__init__()
        self.storage = watched.untyped_storage().data_ptr()
        self.has_moved = False

    def __torch_function__(
        self, func: Callable, types: Iterable, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Inspect the arguments of a torch function, and call it."""
        if getattr(func, "__name__", "") in ("to", "type_as", "cuda"):
            self.has_moved |= args[0].untyped_storage().data_ptr() == self.storage
        return func(*args, **(kwargs or {}))


def _matters(probed: ProbedModel, thing: Tensor | nn.Module, base: Tensor) -> bool:
    """Return whether an unregistered module or tensor learns, or affects the logits.

    A constant that the model itself moves to the device of its input needs no registration.
    """
    if isinstance(thing, nn.Module):
        return any(True for _ in thing.parameters())
    if thing.requires_grad or not thing.is_floating_point():
        return thing.requires_grad
    original = thing.clone()
    thing += torch.linspace(1, 2, thing.numel(), device=thing.device).view_as(thing)
    with _Moves(thing) as moves:
        logits = probed.logits(*probed.batch())
    thing.copy_(original)
    return not moves.has_moved and not difference(logits, base) < NOISE


@as_probe_of_first_weights
def initial_loss(probed: ProbedModel) -> Finding:
    """A fresh model's loss is near ln V, because it predicts all tokens about equally."""
    loss = probed.own_loss(*probed.batch())
    uniform_loss = math.log(probed.logits(*probed.batch()).size(-1))
    hint = f"the first loss is {loss:.2f} nats, and ln V is {uniform_loss:.2f}"
    if not uniform_loss - 0.5 < loss < uniform_loss + 2:
        hint += ": the initialization has the wrong scale, or the model is already trained"
        return False, hint, loss.item()
    return True, hint, loss.item()


@as_probe
def overfit_one_batch(probed: ProbedModel) -> Finding:
    """The model can memorize three short rows, which is impossible without using the context."""
    ids = list(probed.batch(most_words=4, length=TARGET + 1))
    if not probed.reads_source:
        ids[0][:, 0] = probed.words(torch.arange(ROWS, device=ids[0].device))
    losses = _learn(probed, ids)
    _, logits = shifted_loss(probed, *ids)
    right = (logits.argmax(-1) == ids[-1][:, 1:]).float().mean().item()
    bound = 0.2 if probed.loss is None else 0.5 * math.log(logits.size(-1))
    hint = f"after {len(losses)} steps, the loss is {losses[-1]:.2f}"
    hint += f", and {right:.0%} of the tokens are correct"
    if right == 1 and losses[-1] < bound:
        return True, hint, losses
    if (logits.argmax(-1) == ids[-1][:, :-1]).all():
        hint += ": the model repeats its input tokens, as if the labels were not shifted"
    return False, hint, losses


def _learn(probed: ProbedModel, ids: list[Tensor]) -> list[float]:
    """Memorize a batch in eval mode; return all losses, the last one for the final weights."""
    widest = max(parameter.size(-1) for parameter in probed.model.parameters() if parameter.dim())
    rate = 0.02 / math.sqrt(widest)
    optimizer = torch.optim.Adam(probed.model.parameters(), lr=rate, betas=(0.9, 0.98))
    losses: list[float] = []
    while True:
        with torch.enable_grad():
            loss = probed.own_loss(*ids)
        losses.append(loss.item())
        if _has_finished(losses):
            return losses  # before a step that could change an answer again
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _has_finished(losses: list[float]) -> bool:
    """Return whether a batch is memorized, or STEPS steps have improved the loss by less than 10%.

    The loss sometimes jumps up at a high learning rate, and training does not end at such a step.
    """
    if losses[-1] < LEARNED or not math.isfinite(losses[-1]) or len(losses) > 4 * STEPS:
        return True
    if len(losses) <= STEPS or losses[-1] > 1.01 * min(losses):
        return False
    return min(losses[-STEPS:]) > 0.9 * min(losses[:-STEPS])


@as_probe
def loss_per_token(probed: ProbedModel) -> Finding | None:
    """Your loss is the mean over a batch's real tokens, and does not change the model's mode."""
    if probed.loss is None:
        return None
    *source, text = probed.batch(length=TARGET + 1)
    probed.loss(probed.model.train(), *source, text)
    if not probed.model.training:
        return False, "your loss leaves the model in eval mode, in which dropout is off"
    probed.model.eval()
    lengths = [text.size(1) - (0 if probed.pad_id is None else row) for row in range(ROWS)]
    alone, padded = 0.0, text.clone()
    for row, length in enumerate(lengths):
        rows = (each[[row]] for each in source)
        loss = probed.loss(probed.model, *rows, text[[row], :length]).item()
        alone += (length - 1) * loss / (sum(lengths) - ROWS)
        padded[row, length:] = text[row, 0] if probed.pad_id is None else probed.pad_id
    together = probed.loss(probed.model, *source, padded).item()
    hint = f"nats per token: {together:.3f} for a batch, {alone:.3f} for its individual rows"
    if not abs(together - alone) <= ROUNDING * abs(alone):
        return False, f"{hint}; check the padding and the divisor of the sum"
    return True, hint


@as_probe
def loss_targets(probed: ProbedModel) -> Finding | None:
    """Your loss pulls each position toward the next token, and ignores padding.

    The gradient of a mean cross-entropy is (p - q) / n, which reveals the target q.
    """
    if probed.loss is None:
        return None
    *source, text = probed.batch(length=TARGET + 1)
    if probed.pad_id is not None:
        text[0, -2:] = probed.pad_id
    loss, outputs = _loss_and_logits(probed, *source, text)
    if not outputs:
        return None
    gradient, length = outputs[0].grad, text.size(1) - 1
    if gradient is None or outputs[0].size(1) < length or gradient[:, length:].any():
        return False, "a gradient should reach the logits at all positions except the last"
    logits, gradient = outputs[0][:, :length], gradient[:, :length]
    targets = text[:, 1:]  # (B, T)
    real = targets != (-1 if probed.pad_id is None else probed.pad_id)  # (B, T)
    if gradient[~real].any():
        return False, "padding in the targets affects the loss"
    q = (logits.softmax(-1) - gradient * real.sum())[real]  # (n, V)
    if (q.argmax(-1) != targets[real]).any():
        return False, "a target is not the next token: check the shift"
    if q.min() < -1e-3 or (q.sum(-1) - 1).abs().max() > 1e-3:
        return False, "the targets are not probabilities, or the loss is not a mean over tokens"
    if probed.pad_id is not None and q[:, probed.pad_id].max() > 1e-4:
        return False, "the padding token gets smoothing mass, so the model learns to predict it"
    entropy = -(q * logits.log_softmax(-1)[real]).sum(-1).mean()
    if not torch.isclose(loss, entropy, rtol=1e-3):
        hint = f"the loss is {loss:.3f}, but the cross-entropy with its targets is {entropy:.3f}"
        return False, f"{hint}: the KL divergence, for example, omits the entropy of the targets"
    return True, f"the next token has a target probability of {q.max(-1).values.mean():.3f}"


def _loss_and_logits(probed: ProbedModel, *ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Compute the loss; return it and the logits that it comes from, which keep their gradient."""
    outputs: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple, output: object) -> None:
        """Keep the logits, and make torch keep their gradient."""
        logits = find_logits(output)
        if logits is not None and logits.requires_grad:
            logits.retain_grad()
            outputs.append(logits)

    probed.model.register_forward_hook(keep)
    with torch.enable_grad():
        loss = probed.own_loss(*ids)
        if loss.requires_grad:
            loss.backward()
    return loss, outputs
