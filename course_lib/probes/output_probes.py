"""Probes that test how the logits depend on the ids, on the other rows and on the mode."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from course_lib.probes.model_copy import amplify
from course_lib.probes.probed_model import (
    NOISE,
    ROUNDING,
    ROWS,
    TARGET,
    Finding,
    ProbedModel,
    as_probe,
    difference,
    shifted_loss,
)

AT_ONCE = "when the model reads the whole output at once"


class NoDropout(TorchFunctionMode):
    """A context in which all of torch's dropout is off, even in training mode."""

    def __torch_function__(
        self, func: Callable, types: Iterable, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Call a torch function without dropout."""
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


def influence(probed: ProbedModel, side: int) -> Tensor:
    """Measure how much each position's logits change when one token of an input changes.

    Args:
        probed: The model, in the mode to test.
        side: The index of the input: 0 for the source, and -1 for the target or the only text.

    Returns:
        Shape ``(T, L)``: how much the logits at position t change if token l changes, as a fraction
        of the largest logit.
    """
    ids = probed.batch()
    base = probed.logits(*ids)  # (B, T, V)
    moved = []
    for place in range(ids[side].size(1)):
        changed = [each.clone() for each in ids]
        changed[side][:, place] = probed.other_words(changed[side][:, place])
        moved.append((probed.logits(*changed) - base).abs().amax(dim=(0, 2)))  # (T,)
    return torch.stack(moved, dim=1) / base.abs().max()


@as_probe
def causality(probed: ProbedModel) -> Finding | None:
    """Changing a token does not change the logits at earlier positions, in eval or training mode.

    Dropout is off in both modes, because how many random numbers a model draws may depend
    on the tokens.
    """
    for mode in ("eval", "training"):
        probed.model.train(mode == "training")
        with NoDropout():
            matrix = influence(probed, -1)
        future = (matrix > NOISE).triu(1)
        if future.any():
            row, column = future.nonzero()[0].tolist()
            hint = f"in {mode} mode, position {row} sees the token at position {column}"
            where = "the causal mask, its polarity and axes, and at whatever else mixes positions"
            return False, f"{hint}: look at {where}", matrix
    return True, "no position sees a later token", matrix


@as_probe
def context(probed: ProbedModel) -> Finding | None:
    """Changing a token changes the logits at every position that should see it.

    A sliding window of at least two tokens is accepted if it is the same at all positions.
    """
    amplify(probed.model)
    matrix = influence(probed, -1)
    sees = (matrix > NOISE).tril()
    window = int(sees[-1].sum())
    expected = torch.ones_like(sees).tril().triu(1 - window)
    if window < 2 or not torch.equal(sees, expected):
        row, column = sees.logical_not().tril().nonzero()[0].tolist()
        hint = f"position {row} does not see the token at position {column}"
        return False, f"{hint}: a mask hides too much, or attention is not used", matrix
    if probed.reads_source:
        across = influence(probed, 0)
        if (across <= NOISE).any():
            row, column = (across <= NOISE).nonzero()[0].tolist()
            hint = f"position {row} of the target does not see position {column} of the source"
            return False, f"{hint}: look at cross-attention and its mask", across
    if window < len(matrix):
        return True, f"every position sees the last {window} tokens (a sliding window)", matrix
    return True, "every position sees every token that it should see", matrix


@as_probe
def padding_invariance(probed: ProbedModel) -> Finding | None:
    """The logits depend neither on padding after a sequence nor on the padding embedding."""
    if probed.pad_id is None:
        return None
    ids = probed.batch()
    base = probed.logits(*ids)  # (B, T, V)
    for side, name in enumerate(("source", "target") if probed.reads_source else ("text",)):
        longer = list(ids)
        longer[side] = F.pad(ids[side], (0, 2), value=probed.pad_id)
        gap = difference(probed.logits(*longer)[:, : base.size(1)], base)
        if not gap < ROUNDING:
            hint = f"padding after the {name} changes the logits by {gap:.1g} times the largest one"
            return False, f"{hint}: look at the padding mask, its polarity and its axes"
    if probed.reads_source:
        gap = _gap_when_padding_is_louder(probed, probed.pad_id)
        if not gap < NOISE:
            return False, "the model reads padding before or inside a source: mask it by its id"
    return True, "padding does not change the logits"


def _gap_when_padding_is_louder(probed: ProbedModel, pad_id: int) -> float:
    """Return how much the logits change when padding in the source gets another embedding."""
    src, tgt = probed.batch()
    src = F.pad(src, (2, 0), value=pad_id)
    src[:, 3] = pad_id
    base = probed.logits(src, tgt)

    def louder(module: nn.Module, read: tuple, output: Tensor) -> Tensor:
        """Change the padding embedding, but only when the source is embedded."""
        if not (read and isinstance(read[0], Tensor) and torch.equal(read[0], src)):
            return output
        return output + (src == pad_id).unsqueeze(-1)

    for module in probed.model.modules():
        if isinstance(module, nn.Embedding):
            module.register_forward_hook(louder)
    return difference(probed.logits(src, tgt), base)


@as_probe
def batch_invariance(probed: ProbedModel) -> Finding | None:
    """A row gets the same logits alone and in a batch, regardless of its index in the batch."""
    ids = probed.batch()
    base = probed.logits(*ids)
    turned = probed.logits(*(each.flip(0) for each in ids)).flip(0)
    alone = torch.cat([probed.logits(*(each[[row]] for each in ids)) for row in range(ROWS)])
    for place, logits in {"at another index in the batch": turned, "alone": alone}.items():
        gap = difference(logits, base)
        if not gap < ROUNDING:
            hint = f"the logits of a row {place} differ by {gap:.1g} times the largest logit"
            return False, f"{hint}: an operation confuses the batch axis with another one"
    return True, "no row depends on another"


@as_probe
def order_sensitivity(probed: ProbedModel) -> Finding | None:
    """Swapping two earlier tokens in the source or target changes the last position's logits."""
    amplify(probed.model)
    ids = probed.batch()
    base = probed.logits(*ids)[:, -1]
    for side, name in enumerate(("source", "target") if probed.reads_source else ("text",)):
        swapped = list(ids)
        order = torch.arange(ids[side].size(1), device=ids[side].device)
        order[[-4, -2]] = order[[-2, -4]]
        swapped[side] = ids[side][:, order]
        if difference(probed.logits(*swapped)[:, -1], base) < NOISE:
            return False, f"the order of the {name} has no effect: look at the positional encoding"
    return True, "the order of the tokens matters"


@as_probe
def determinism(probed: ProbedModel) -> Finding | None:
    """In eval mode, the same ids always give the same logits, even after a different batch."""
    ids = probed.batch()
    base = probed.logits(*ids)
    torch.manual_seed(1)
    again = probed.call(probed.model, *ids)
    if not difference(again, base) < NOISE:
        hint = "in eval mode, two calls differ"
        return False, f"{hint}: something is random, such as dropout"
    between = [each.clone() for each in probed.batch(length=TARGET + 1)]
    if probed.pad_id is not None:
        between[0][:, 2:] = probed.pad_id
    probed.logits(*between)
    if not difference(probed.logits(*ids), base) < NOISE:
        return False, "one call affects the next: something, such as a mask, is changed in place"
    return True, "in eval mode, the same ids give the same logits"


@as_probe
def training_and_eval_mode(probed: ProbedModel) -> Finding | None:
    """Apart from dropout, training mode and eval mode compute the same logits."""
    ids = probed.batch()
    base = probed.logits(*ids)
    losses = {"eval": shifted_loss(probed, *ids)[0].item()}
    probed.model.train()
    losses["training"] = shifted_loss(probed, *ids)[0].item()
    with NoDropout():
        without = probed.logits(*ids)
        torch.manual_seed(1)
        drawn = difference(probed.call(probed.model, *ids), without) > NOISE
    losses_by_mode = ", ".join(f"{mode} {loss:.3f}" for mode, loss in losses.items())
    if drawn:
        return (
            True,
            f"something other than torch's dropout is random; loss: {losses_by_mode}",
            losses,
        )
    gap = difference(without, base)
    if not gap < ROUNDING:
        hint = f"without dropout, the modes still differ by {gap:.1g} times the largest logit"
        return False, f"{hint}; loss: {losses_by_mode}", losses
    return True, f"apart from dropout, both modes agree; loss: {losses_by_mode}", losses


@as_probe
def free_running(probed: ProbedModel) -> Finding | None:
    """Each generated token is the arg max of a single pass over the whole output."""
    *source, text = probed.batch()
    if probed.generate is not None:
        return _own_generate(probed, probed.generate, source, text)
    written = text[:, :2]
    steps = []
    for _ in range(4):
        steps.append(probed.logits(*source, written)[:, -1])
        written = torch.cat([written, steps[-1].argmax(-1, keepdim=True)], dim=1)
    at_once = probed.logits(*source, written[:, :-1])[:, 1:]  # (B, 4, V)
    gap = difference(torch.stack(steps, dim=1), at_once)
    if not gap < ROUNDING:
        hint = f"step by step, the logits differ by {gap:.1g} times the largest logit"
        return False, f"{hint}: they depend on the length or on later tokens"
    return True, "the logits are the same whether computed step by step or in one pass"


def _own_generate(
    probed: ProbedModel, generate: Callable[..., Tensor], source: list[Tensor], text: Tensor
) -> Finding:
    """Compare the output of ``generate`` with a single pass over it, and with a second call.

    We compare again with larger weights, because a fresh model repeats its input token, whether or
    not the cache is right.
    """
    finding = _written_as_in_one_pass(probed, generate, source, text)
    amplify(probed.model, gain=2.0)
    return _written_as_in_one_pass(probed, generate, source, text) if finding[0] else finding


def _written_as_in_one_pass(
    probed: ProbedModel, generate: Callable[..., Tensor], source: list[Tensor], text: Tensor
) -> Finding:
    """Compare each of three calls to ``generate`` with one pass, and the third with the first."""
    count, outputs = 0, []
    for shorter in (0, 1, 0):  # the third call repeats the first one
        inputs = [each[:, : each.size(1) - shorter].contiguous() for each in source]
        prompt = text[:, : 1 if source else 3 - shorter].contiguous()
        own = generate(probed.model, *(inputs or [prompt]))
        outputs.append(torch.cat([prompt, own], dim=1) if source else own)
        wrong, new = _not_arg_max(probed, inputs, outputs[-1], prompt.size(1))
        count += new
        if wrong:
            hint = f"{wrong} of {new} new tokens do not match the arg max {AT_ONCE}"
            return False, f"{hint}: look at the first input token, the cache and the mode"
    if not torch.equal(outputs[0], outputs[2]):
        return False, "a repeated call returns different tokens: some state is kept between calls"
    return True, f"all {count} new tokens match the arg max {AT_ONCE}"


def _not_arg_max(
    probed: ProbedModel, source: list[Tensor], written: Tensor, start: int
) -> tuple[int, int]:
    """Count the tokens from ``start`` on that are not the arg max, and all tokens from there on."""
    logits = probed.logits(*source, written[:, :-1])[:, start - 1 :]
    if probed.pad_id is not None:
        logits[..., probed.pad_id] = -math.inf
    new = written[:, start:]
    best = logits.amax(dim=-1)
    missing = best - logits.gather(-1, new.unsqueeze(-1)).squeeze(-1)  # (B, T)
    wrong = (missing > ROUNDING * best.abs().max()) & (new != probed.pad_id)
    return int(wrong.sum()), new.numel()


@as_probe
def returns_logits(probed: ProbedModel) -> Finding:
    """The outputs are logits, not probabilities or log-probabilities."""
    logits = probed.logits(*probed.batch()).float()
    if difference(logits.exp().sum(dim=-1), torch.ones(())) < ROUNDING:
        return False, "the model returns log-probabilities, but cross-entropy computes them itself"
    if logits.min() >= 0 and difference(logits.sum(dim=-1), torch.ones(())) < ROUNDING:
        return False, "the model returns probabilities, but cross-entropy applies a softmax itself"
    return True, "the outputs are neither probabilities nor their logarithms"
