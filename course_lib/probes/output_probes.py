"""Probes of what a model answers: which ids, which neighbours and which mode move its logits."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from course_lib.probes.probed_model import (
    NOISE,
    ROUNDING,
    ROWS,
    TARGET,
    Subject,
    a_probe,
    difference,
    shifted_loss,
)


def influence(subject: Subject, side: int) -> Tensor:
    """Measure how far each position's logits move when one token of an input changes.

    Args:
        subject: In the mode to be looked at.
        side: Which input, -1 for the target or the text.

    Returns:
        Shape ``(T, L)``, in units of the largest logit: row t moves when token l changes.
    """
    ids = subject.batch()
    base = subject.logits(*ids)  # (B, T, V)
    moved = []
    for place in range(ids[side].size(1)):
        changed = [each.clone() for each in ids]
        changed[side][:, place] = subject.other(changed[side][:, place])
        moved.append((subject.logits(*changed) - base).abs().amax(dim=(0, 2)))  # (T,)
    return torch.stack(moved, dim=1) / base.abs().max()


@a_probe
def causality(subject: Subject) -> tuple | None:
    """No logits move when a later token changes, in eval mode and in training mode."""
    for mode in ("eval", "training"):
        subject.model.train(mode == "training")
        matrix = influence(subject, -1)
        future = (matrix > NOISE).triu(1)
        if future.any():
            row, column = future.nonzero()[0].tolist()
            hint = f"in {mode} mode, position {row} sees the token at position {column}"
            where = "the causal mask, its polarity and axes, and at what may mix positions"
            return False, f"{hint}: look at {where}", matrix
    return True, "no position sees a later token", matrix


@a_probe
def context(subject: Subject) -> tuple | None:
    """Every position's logits move when a token changes that it should see."""
    matrix = influence(subject, -1)
    blind = (matrix <= NOISE).tril()
    if blind.any():
        row, column = blind.nonzero()[0].tolist()
        hint = f"position {row} does not see the token at position {column}"
        return False, f"{hint}: a mask that hides too much, or attention that is not used", matrix
    if subject.reads_source:
        across = influence(subject, 0)
        if (across <= NOISE).any():
            row, column = (across <= NOISE).nonzero()[0].tolist()
            hint = f"position {row} of the target does not see position {column} of the source"
            return False, f"{hint}: look at cross-attention and its mask", across
    return True, "every position sees all that it should see", matrix


@a_probe
def padding_invariance(subject: Subject) -> tuple | None:
    """Padding behind a sequence moves no logits, nor does what a padded source position holds."""
    if subject.pad_id is None:
        return None
    ids = subject.batch()
    base = subject.logits(*ids)  # (B, T, V)
    for side, name in enumerate(("source", "target") if subject.reads_source else ("text",)):
        longer = list(ids)
        longer[side] = F.pad(ids[side], (0, 2), value=subject.pad_id)
        gap = difference(subject.logits(*longer)[:, : base.size(1)], base)
        if not gap < ROUNDING:
            hint = f"padding behind the {name} moves the logits by {gap:.1g} of the largest"
            return False, f"{hint}: look at the padding mask, its polarity and its axes"
    if subject.reads_source:
        gap = _gap_when_padding_is_louder(subject, subject.pad_id)
        if not gap < NOISE:
            return False, "padding in front of or inside a source is read: count no lengths"
    return True, "padding moves nothing"


def _gap_when_padding_is_louder(subject: Subject, pad_id: int) -> float:
    """Return how far logits move when padding in front of a source has another embedding."""
    src, tgt = subject.batch()
    src = F.pad(src, (2, 0), value=pad_id)
    src[:, 3] = pad_id
    base = subject.logits(src, tgt)

    def louder(module: nn.Module, read: tuple, output: Tensor) -> Tensor:
        """Change the embedding of padding where the source is looked up."""
        if not (read and isinstance(read[0], Tensor) and torch.equal(read[0], src)):
            return output
        return output + (src == pad_id).unsqueeze(-1)

    for module in subject.model.modules():
        if isinstance(module, nn.Embedding):
            module.register_forward_hook(louder)
    return difference(subject.logits(src, tgt), base)


@a_probe
def batch_invariance(subject: Subject) -> tuple | None:
    """A row's logits are the same alone, and at another place of the batch."""
    ids = subject.batch()
    base = subject.logits(*ids)
    turned = subject.logits(*(each.flip(0) for each in ids)).flip(0)
    alone = torch.cat([subject.logits(*(each[[row]] for each in ids)) for row in range(ROWS)])
    for how, logits in {"at another place of the batch": turned, "alone": alone}.items():
        gap = difference(logits, base)
        if not gap < ROUNDING:
            hint = f"a row {how} differs by {gap:.1g} of the largest logit"
            return False, f"{hint}: an operation takes the batch's axis for another"
    return True, "no row depends on another"


@a_probe
def order_sensitivity(subject: Subject) -> tuple | None:
    """The last logits move when two earlier tokens change places, on either side."""
    ids = subject.batch()
    base = subject.logits(*ids)[:, -1]
    for side, name in enumerate(("source", "target") if subject.reads_source else ("text",)):
        swapped = list(ids)
        order = torch.arange(ids[side].size(1), device=ids[side].device)
        order[[1, 3]] = order[[3, 1]]
        swapped[side] = ids[side][:, order]
        if difference(subject.logits(*swapped)[:, -1], base) < NOISE:
            return False, f"the order of the {name} changes nothing: positions do not arrive"
    return True, "the order of the tokens matters"


@a_probe
def determinism(subject: Subject) -> tuple | None:
    """In eval mode the same ids give the same logits, whatever is drawn or read in between."""
    ids = subject.batch()
    base = subject.logits(*ids)
    torch.manual_seed(1)
    again = subject.call(subject.model, *ids)
    if not difference(again, base) < NOISE:
        hint = "in eval mode, two calls differ"
        return False, f"{hint}: something is drawn at random, such as dropout"
    between = [each.clone() for each in subject.batch(length=TARGET + 1)]
    if subject.pad_id is not None:
        between[0][:, 2:] = subject.pad_id
    subject.logits(*between)
    if not difference(subject.logits(*ids), base) < NOISE:
        return False, "a call changes the next one: something is changed in place, such as a mask"
    return True, "in eval mode the same ids give the same logits"


class _NoDropout(TorchFunctionMode):
    """Switch every dropout of torch off, in training mode, too."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if "dropout" in name and args:
            return args[0]
        if name == "scaled_dot_product_attention":
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs |= {"dropout_p": 0.0} if len(args) < 5 else {}
        if name == "multi_head_attention_forward":
            kwargs["training"] = False
        return func(*args, **kwargs)


@a_probe
def training_and_eval_mode(subject: Subject) -> tuple | None:
    """Apart from dropout, both modes compute the same."""
    ids = subject.batch()
    base = subject.logits(*ids)
    losses = {"eval": shifted_loss(subject, *ids)[0].item()}
    subject.model.train()
    losses["training"] = shifted_loss(subject, *ids)[0].item()
    with _NoDropout():
        without = subject.logits(*ids)
        torch.manual_seed(1)
        drawn = difference(subject.call(subject.model, *ids), without) > NOISE
    said = ", ".join(f"{mode} {loss:.3f}" for mode, loss in losses.items())
    if drawn:
        return True, f"something else than torch's dropout is random; loss: {said}", losses
    gap = difference(without, base)
    if not gap < ROUNDING:
        hint = f"without dropout, the modes still differ by {gap:.1g} of the largest logit"
        return False, f"{hint}; loss: {said}", losses
    return True, f"apart from dropout, both modes compute the same; loss: {said}", losses


@a_probe
def free_running(subject: Subject) -> tuple | None:
    """Written one by one, the tokens are the arg max of one pass over what was written."""
    *source, text = subject.batch()
    if subject.generate is not None:
        return _own_generate(subject, subject.generate, source, text)
    written = text[:, :2]
    steps = []
    for _ in range(4):
        steps.append(subject.logits(*source, written)[:, -1])
        written = torch.cat([written, steps[-1].argmax(-1, keepdim=True)], dim=1)
    at_once = subject.logits(*source, written[:, :-1])[:, 1:]  # (B, 4, V)
    gap = difference(torch.stack(steps, dim=1), at_once)
    if not gap < ROUNDING:
        hint = f"step by step, the logits differ by {gap:.1g} of the largest"
        return False, f"{hint}: they depend on the length, or on what comes later"
    return True, "step by step and at once, the logits are the same"


def _own_generate(
    subject: Subject, generate: Callable, source: list[Tensor], text: Tensor
) -> tuple:
    """Hold what ``generate`` writes against one pass over it."""
    prompt = text[:, :1] if source else text[:, :2]
    own = generate(subject.model, *(source or [prompt]))
    written = torch.cat([prompt, own], dim=1) if source else own
    logits = subject.logits(*source, written[:, :-1])
    if subject.pad_id is not None:
        logits[..., subject.pad_id] = -math.inf
    start = prompt.size(1)
    new = written[:, start:]
    wrong = (logits.argmax(-1)[:, start - 1 :] != new) & (new != subject.pad_id)
    if wrong.any():
        hint = f"{wrong.sum()} of {wrong.numel()} tokens written are not the arg max of one pass"
        return False, f"{hint}: look at the first token it reads, the cache, and the mode"
    return True, f"all {new.numel()} tokens written are the arg max of one pass"


@a_probe
def returns_logits(subject: Subject) -> tuple:
    """The model returns logits: no probabilities, and not their logarithms."""
    logits = subject.logits(*subject.batch()).float()
    if difference(logits.exp().sum(dim=-1), torch.ones(())) < ROUNDING:
        return False, "it returns log-probabilities; cross-entropy takes the logarithm itself"
    if logits.min() >= 0 and difference(logits.sum(dim=-1), torch.ones(())) < ROUNDING:
        return False, "it returns probabilities; cross-entropy applies a softmax itself"
    return True, "the outputs are neither probabilities nor their logarithms"
