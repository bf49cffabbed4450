"""Trials for the exercises of chapter 11: losses, learning rates, updates and training steps."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.checking.outcomes import Outcome
from course_lib.exercises.checking.scalar_trials import calls
from course_lib.exercises.checking.small_models import small_model
from course_lib.exercises.checking.trial import (
    T,
    Trial,
    as_trial,
    by_name,
    function_trial,
    half_precision,
    normal,
    observe,
)
from course_lib.training import translation_loss

V = 7
TARGETS = torch.tensor([[5, 0, 2, 1], [6, 3, 3, 3]])  # (2, T): 4 and 1 real if pad_id=3
WITH_ZEROS = torch.tensor([[5, 3, 2, 0], [6, 0, 0, 0]])  # (2, T): 3 and 1 real if pad_id=0
SQUARE = torch.tensor([[3, 1, 0], [1, 2, 0], [2, 0, 0]])  # (3, 3), with 4 entries
LR = 0.5
CLIP = "Call `nn.utils.clip_grad_norm_(model.parameters(), clip_norm)` right before the step."
BATCHES = [  # with pad_id=0: source (2, 3) and target (2, 5), from bos 1 to eos 2
    (torch.tensor([[7, 8, 9], [6, 10, 0]]), torch.tensor([[1, 9, 5, 3, 2], [1, 6, 2, 0, 0]])),
    (torch.tensor([[10, 4, 6], [3, 9, 0]]), torch.tensor([[1, 7, 10, 2, 0], [1, 3, 4, 8, 2]])),
]
WITH_THREES = tuple(ids + 3 * (ids == 0).long() - 3 * (ids == 3).long() for ids in BATCHES[0])
FORMULA = (
    "The loss for a token is minus the sum of two terms: (1 - smoothing) times the log-probability "
    "of the correct token, and smoothing times the mean log-probability of all tokens but padding."
)
PADDING = "Leave padding targets out of both the sum and the token count."
EQUATION = "Equation (3) is 1/√d_model times the smaller of 1/√step and step / warmup_steps^1.5."
SHIFT = "The model reads `tgt[:, :-1]` and must predict `tgt[:, 1:]`."
CORRECTION = "Divide each moment by 1 - beta**step before you use it, but return it uncorrected."
SMALL = "Divide by √v_hat + eps, so that the first update is about 1 or -1 for every gradient."
STEP = "Update the weights once with the summed gradients, and return the sum of the losses."


def scores(targets: Tensor = TARGETS, num: int = V, size: float = 2.5) -> dict[str, Tensor]:
    """Draw random logits for some targets."""
    return {"logits": size * normal("logits", *targets.shape, num), "targets": targets}


def loss(label: str, given: dict | None = None, **options: Any) -> Trial:
    """Compare the loss and its gradients."""
    says = f"{PADDING} {FORMULA}" if "pad_id" in options else FORMULA
    return function_trial(label, given or scores(), ("loss",), options=options, says=says)


@as_trial("equal logits", "Every token then has probability 1/V, so the loss is ln V nats.")
def uniform(candidate: Callable) -> dict[str, float]:
    return {"loss of equal logits": float(candidate(torch.zeros(2, T, V), TARGETS.clone()))}


RISING = torch.arange(0.0, 12.0, 2.0).repeat(9_999, 1)  # about 10 nats for each of the tokens
loss_in_float16 = half_precision(
    "A float16 ends at 65,504, so add up the losses in float32.",
    lambda loss, dtype: loss(RISING.to(dtype), torch.zeros(9_999).long(), pad_id=1),
)


def rates(label: str, steps: Iterable[int], d_model: int, warmup_steps: int) -> Trial:
    """Compare the learning rates at some steps."""
    cases = {f"rate of step {n}": (n, d_model, warmup_steps) for n in steps}
    return calls(label, cases, says=EQUATION)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Copy all weights of a model."""
    return {name: parameter.detach().clone() for name, parameter in by_name(model).items()}


def shifted(
    label: str, batch: tuple = BATCHES[0], pad_id: int = 0, max_len: int = 6, **options: Any
) -> Trial:
    """Compare the loss on a batch, and the gradients of all weights."""

    def measure(candidate: Callable) -> Outcome:
        model = small_model(pad_id, max_len).train()
        call = lambda now: candidate(model, *now.values(), pad_id=pad_id, **options)  # noqa: E731
        given = dict(zip(("src", "tgt"), batch, strict=True))
        return observe(call, given, ("loss",), by_name(model))

    return Trial(label, measure, says=f"{SHIFT} {PADDING}")


def stepped(
    label: str, steps: list, rates: tuple = (LR,), groups: int = 1, says: str = STEP, **options: Any
) -> Trial:
    """Compare losses and weights after some steps; ``steps`` lists the batches for each step."""

    def measure(candidate: Callable) -> Outcome:
        model = small_model().train()
        before, calls = weights_of(model), set()
        parts = [{"params": [*model.parameters()][first::groups]} for first in range(groups)]
        optimizer = torch.optim.SGD(parts, lr=0.1)
        optimizer.register_step_pre_hook(lambda *_: calls.add("optimizer.step"))
        next(model.parameters()).register_hook(lambda _: calls.add("loss.backward"))
        shown: dict[str, Any] = {}
        for n, (batches, rate) in enumerate(zip(steps, rates, strict=True), start=1):
            losses = (translation_loss(model, *batch, pad_id=0) for batch in batches)
            given = losses if batches[1:] else [*losses]  # several losses come from a generator
            value = candidate(model, optimizer, given, rate, **options)
            shown[f"loss of step {n}"] = value.detach() if isinstance(value, Tensor) else value
        modes = [model.training, *sum(model.modes.values(), [])]
        shown["the model stays in training mode"] = all(modes)
        shown["weights"] = weights_of(model)
        if all(torch.equal(old, shown["weights"][name]) for name, old in before.items()):
            left = any(parameter.grad is not None for parameter in model.parameters())
            shown["no weight moves"] = {"calls": " ".join(sorted(calls)), "gradients left": left}
        return Outcome(shown)

    return Trial(label, measure, says=says)


def updates(label: str, steps: Iterable[int], size: float = 1.0, **options: Any) -> Trial:
    """Compare Adam's updates and both moments; each step continues from the one before."""

    def measure(candidate: Callable) -> Outcome:
        shown: dict[str, Any] = {}
        now, changed = dict.fromkeys("mv", torch.zeros(2, 3)), set()
        for step in steps:
            given = {"gradient": size * normal(f"gradient of step {step}", 2, 3)} | now
            call = lambda x, step=step: candidate(*x.values(), step, **options)  # noqa: E731
            seen = observe(call, given, ("update", "m", "v"))
            changed |= set(seen.changed)
            shown |= {f"{name} of step {step}": value for name, value in seen.values.items()}
            now |= {n: x for n, x in seen.values.items() if n in now and isinstance(x, Tensor)}
        return Outcome(shown, {}, tuple(sorted(changed)))

    return Trial(label, measure, says=SMALL if size < 1 or "eps" in options else CORRECTION)


@as_trial("the returned loss", "Detach each loss, so that a stored loss does not keep its graph.")
def graph_kept(candidate: Callable) -> dict[str, bool]:
    model = small_model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    value = candidate(model, optimizer, [translation_loss(model, *BATCHES[0], pad_id=0)], LR)
    return {"the loss keeps its graph": isinstance(value, Tensor) and value.requires_grad}
