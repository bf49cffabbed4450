"""A model to probe, with a way to call it, ids to feed it, and copies for the probes."""

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.probes.model_copy import copy_model, nudge_zeros, runs_original
from course_lib.probes.probe_result import ProbeResult
from course_lib.support.input_checks import first_line

ROWS, SOURCE, TARGET = 3, 5, 7  # rows and tokens of the inputs
NOISE = 1e-6  # relative rounding error between calls with the same shapes
ROUNDING = 1e-4  # relative rounding error between calls with different shapes
Finding = tuple[bool, str] | tuple[bool, str, object]  # whether the claim holds, a hint, data


Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ProbedModel:
    """A model and the way to call it, as built by ``prepare_model``.

    Args:
        model: Takes ids, and returns logits.
        vocab_size: All ids are below this number. It is the smaller size if the source and target
            vocabularies differ.
        pad_id: Id of the padding token, if the model has one.
        never_drawn: The id that is never drawn as a word. It is the padding id or an
            embedding's ``padding_idx``, whose vector is zero and never trained.
        call: Takes the model and its ids, and returns logits ``(B, T, V)``.
        reads_source: Whether the ids are a source ``(B, S)`` and a target ``(B, T)``, not one text.
        loss: As in ``probe``, like all arguments after it.
    """

    model: nn.Module
    vocab_size: int
    pad_id: int | None
    never_drawn: int | None
    call: Callable[..., Tensor]
    reads_source: bool
    loss: Callable[..., Tensor] | None = None
    generate: Callable[..., Tensor] | None = None
    bos_id: int | None = None
    dropout: float | None = None
    attention_scale: float | None = None

    def logits(self, *ids: Tensor) -> Tensor:
        """Return the logits ``(B, T, V)``; every call uses the same seed."""
        torch.manual_seed(0)
        return self.call(self.model, *(each.contiguous() for each in ids))

    def own_loss(self, *ids: Tensor) -> Tensor:
        """Compute the user's loss if one was passed, or else ``shifted_loss``."""
        if self.loss is None:
            return shifted_loss(self, *ids)[0]
        return self.loss(self.model, *(each.contiguous() for each in ids))

    def words(self, indices: Tensor) -> Tensor:
        """Map any integers to word ids, leaving out the id ``never_drawn``."""
        count = self.vocab_size - (self.never_drawn is not None)
        ids = indices % count
        return ids if self.never_drawn is None else ids + (ids >= self.never_drawn).long()

    def other_words(self, ids: Tensor) -> Tensor:
        """Replace each word with a different one."""
        if self.never_drawn is None:
            return self.words(ids + 1)
        return self.words(ids - (ids > self.never_drawn).long() + 1)

    def batch(
        self, most_words: int = 10**6, length: int = TARGET, seed: int = 1
    ) -> tuple[Tensor, ...]:
        """Draw ids of at most ``most_words`` different words; the same seed gives the same ids."""
        generator = torch.Generator().manual_seed(seed)
        device = next(self.model.parameters(), torch.empty(0)).device
        sizes = ([SOURCE] if self.reads_source else []) + [length]
        drawn = [torch.randint(most_words, (ROWS, size), generator=generator) for size in sizes]
        if self.reads_source:
            drawn[1][:, 0] = 0
        ids = [self.words(indices).to(device) for indices in drawn]
        if self.reads_source and self.bos_id is not None:
            ids[1][:, 0] = self.bos_id
        return tuple(ids)


Probe = Callable[[ProbedModel], ProbeResult | None]
PROBES: list[Probe] = []


def find_logits(output: object) -> Tensor | None:
    """Find the logits in a model's output: a tensor, a tuple's first item, or ``.logits``."""
    output = getattr(output, "logits", output)
    logits = output[0] if isinstance(output, tuple) and output else output
    return logits if isinstance(logits, Tensor) and logits.dim() == 3 else None


def logits_of(output: object) -> Tensor:
    """Return the logits in a model's output; raise ValueError if there are none.

    A token that the model excludes with -inf at every position gets the lowest of the other logits.
    """
    logits = find_logits(output)
    if logits is None:
        message = "the model does not return logits of shape (B, T, V): adapt it with forward="
        raise ValueError(message)
    never = logits.isneginf().flatten(0, 1).all(dim=0)  # (V,)
    if never.all() or not never.any():
        return logits
    return torch.where(never, logits[..., ~never].amin(dim=-1, keepdim=True), logits)


def prepare_model(
    model: nn.Module,
    *,
    vocab_size: int,
    pad_id: int | None = None,
    forward: Callable[..., object] | None = None,
    loss: Callable[..., Tensor] | None = None,
    generate: Callable[..., Tensor] | None = None,
    bos_id: int | None = None,
    dropout: float | None = None,
    attention_scale: float | None = None,
) -> ProbedModel:
    """Find out how to call a model, and call it once; the arguments are those of ``probe``.

    Raises:
        ValueError: If the vocabulary has fewer than 6 words, if the model cannot be copied or
            called, or if it does not return logits for every position.
    """
    model = getattr(model, "_orig_mod", model)  # a compiled copy would still run the original
    run_forward = forward or (lambda model, *ids: model(*ids))
    probed = ProbedModel(
        model=model,
        vocab_size=vocab_size,
        pad_id=pad_id,
        never_drawn=_padding_index(model) if pad_id is None else pad_id,
        call=lambda model, *ids: logits_of(run_forward(model, *ids)),
        reads_source=_needs_two_arguments(model, forward),
        loss=loss,
        generate=generate,
        bos_id=bos_id,
        dropout=dropout,
        attention_scale=attention_scale,
    )
    _call_once(probed)
    return probed


def _padding_index(model: nn.Module) -> int | None:
    """Return the ``padding_idx`` of the first embedding that has one, or None."""
    embeddings = (module for module in model.modules() if isinstance(module, nn.Embedding))
    return next((each.padding_idx for each in embeddings if each.padding_idx is not None), None)


def _needs_two_arguments(model: nn.Module, forward: Callable[..., object] | None) -> bool:
    """Return whether the model needs two arguments: a source and a target."""
    try:
        if forward is None:
            inspect.signature(model.forward).bind(None)
        else:
            inspect.signature(forward).bind(model, None)
    except TypeError:
        return True
    return False


def _call_once(probed: ProbedModel) -> None:
    """Call a copy of the model; raise ValueError if the call fails or its result is wrong."""
    if probed.vocab_size < 6 + (probed.pad_id is not None):
        message = f"the probes need 6 words besides padding, got vocab_size={probed.vocab_size}"
        raise ValueError(message)
    ids = probed.batch()
    results: list[Tensor] = []
    inputs = "source and target" if probed.reads_source else "ids"
    remedy = f"pass forward=, or a vocab_size below {probed.vocab_size}"

    def call_copy() -> None:
        """Run a copy, and store its logits."""
        results.append(_run_on_copy(probed, lambda copied: copied.logits(*ids)))

    try:
        uses_original = runs_original(probed.model, call_copy)
    except Exception as error:
        reason = first_line(error)
        message = f"the model cannot be called with {inputs} ({reason}): {remedy}"
        raise ValueError(message) from error
    if uses_original:
        raise ValueError(
            "the probes call a copy of the model, but a function (perhaps forward=) calls the "
            "original: make it use the model that it receives as an argument"
        )
    if results[0].shape[:2] != ids[-1].shape:
        raise ValueError(
            f"the model returns logits of shape {tuple(results[0].shape)} for ids of shape "
            f"{tuple(ids[-1].shape)}, but the probes need logits (B, T, V) at every position: "
            "pass forward=, for example forward=lambda model, ids: model(ids, ids) if the model "
            "computes them only when it also gets targets"
        )


def _run_on_copy(
    probed: ProbedModel, function: Callable[[ProbedModel], Result], nudged: bool = False
) -> Result:
    """Call a function on a copy in eval mode, without gradients, and restore the random state.

    During the call, the fused inference path of ``nn.TransformerEncoder`` is switched off, because
    it skips hooks and returns shorter outputs for padded batches.
    """
    model = copy_model(probed.model).eval()
    devices = {p.device.index or 0 for p in model.parameters() if p.is_cuda}
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            if nudged:
                nudge_zeros(model)
            return function(replace(probed, model=model))
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)


def as_probe(function: Callable[[ProbedModel], Finding | None]) -> Probe:
    """Turn a function into a probe with the same name, and add it to ``PROBES``.

    The function gets a copy in which noise replaces parameters that are all zero. It returns
    whether the probe passes, a hint, and perhaps data, or None if the probe does not apply.
    """
    return _add_probe(function, nudged=True)


def as_probe_of_first_weights(function: Callable[[ProbedModel], Finding | None]) -> Probe:
    """Turn a function into a probe that runs on a copy of the model with the same weights."""
    return _add_probe(function, nudged=False)


def _add_probe(function: Callable[[ProbedModel], Finding | None], nudged: bool) -> Probe:
    """Wrap a function so that it runs on a copy, and add it to ``PROBES``."""

    @functools.wraps(function)
    def run(probed: ProbedModel) -> ProbeResult | None:
        """Run the probe on a copy; return ``None`` if it does not apply."""
        try:
            finding = _run_on_copy(probed, function, nudged)
        except Exception as error:
            finding = False, f"{type(error).__name__}: {first_line(error)}"
        name = function.__name__.replace("_", " ")
        return None if finding is None else ProbeResult(name, *finding)

    PROBES.append(run)
    return run


def difference(a: Tensor, b: Tensor) -> float:
    """Return the largest difference relative to the largest number in ``b``, or ``inf`` for nan."""
    gap = (a - b).abs().max() / b.abs().max().clamp(min=1e-30)
    return math.inf if gap.isnan() else gap.item()


def shifted_loss(probed: ProbedModel, *ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean loss of predicting each next token, in nats, and the logits ``(B, T, V)``."""
    *source, text = ids
    logits = probed.logits(*source, text[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten()), logits
