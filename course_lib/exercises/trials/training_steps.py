"""What is asked of one step: the weights that gradient descent by hand arrives at."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, by_name, value_trial
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trials.small_models import SmallTransformer, small_model
from course_lib.exercises.trials.training_loss import cross_entropy

LR, SMOOTHING = 0.5, 0.3
BATCHES = [  # with pad_id=0: source (2, 3) and target (2, 5), from bos 1 to eos 2
    (torch.tensor([[7, 8, 9], [6, 10, 0]]), torch.tensor([[1, 9, 5, 3, 2], [1, 6, 2, 0, 0]])),
    (torch.tensor([[10, 4, 6], [3, 9, 0]]), torch.tensor([[1, 7, 10, 2, 0], [1, 3, 4, 8, 2]])),
]


def batch_of(step: int) -> tuple[Tensor, Tensor]:
    """Give the batch of a step: another one for each of four in a row."""
    src, tgt = (ids.clone() for ids in BATCHES[step % 2])
    return (src, tgt) if step % 4 < 2 else (src.flip(0), tgt.flip(0)[:, :-1])


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Copy all weights."""
    return {name: parameter.detach().clone() for name, parameter in by_name(model).items()}


def walk(model: nn.Module, batches: list, rates: list[float]) -> tuple[list[Tensor], dict]:
    """Go down the gradient by hand, batch by batch; return losses and weights."""
    losses = []
    for (src, tgt), lr in zip(batches, rates, strict=True):
        logits = torch.stack(  # one sentence after another
            [model(s[None], t[None, :-1])[0] for s, t in zip(src, tgt, strict=True)]
        )
        pad_id = model.config.pad_id
        loss = cross_entropy(logits, tgt[:, 1:], pad_id=pad_id, smoothing=SMOOTHING)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= lr * gradient
        losses.append(loss.detach())
    return losses, weights_of(model)


def named(losses: list) -> dict[str, Any]:
    """Call every loss by its step."""
    return {f"loss of step {place}": loss for place, loss in enumerate(losses, start=1)}


def stepped(candidate: Callable, batches: list, **build: Any) -> Outcome:
    """Make a step for every batch; where nothing moves, add what tells why."""
    model = small_model(**build).train()
    before = weights_of(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("optimizer.step"))
    next(model.parameters()).register_hook(lambda _: calls.append("loss.backward"))
    copies = [(src.clone(), tgt.clone()) for src, tgt in batches]
    losses = [candidate(model, optimizer, *copy, SMOOTHING) for copy in copies]
    shown = named(losses) | {"weights": weights_of(model)}
    if all(torch.equal(old, shown["weights"][name]) for name, old in before.items()):
        left = any(parameter.grad is not None for parameter in model.parameters())
        shown["nothing moves"] = {"calls": " ".join(sorted(set(calls))), "gradients left": left}
    pairs = [zip(("src", "tgt"), *both, strict=True) for both in zip(copies, batches, strict=True)]
    changed = {name for pair in pairs for name, now, was in pair if not torch.equal(now, was)}
    return Outcome(shown, {}, tuple(sorted(changed)))


def step_case(label: str, batches: list, **build: Any) -> Trial:
    """Compare the losses and the weights after some steps with those by hand."""

    def wanted() -> Outcome:
        """Walk down by hand."""
        losses, weights = walk(small_model(**build), batches, [LR] * len(batches))
        return Outcome(named(losses) | {"weights": weights})

    return Trial(
        label, lambda candidate: stepped(candidate, batches, **build), wanted, "equality", SHIFT
    )


SHIFT = (
    "The loss compares what the model says after `tgt[:, :-1]` with `tgt[:, 1:]`; then every "
    "weight goes down its own gradient, once."
)


def graph_kept(candidate: Callable) -> dict[str, Any]:
    """Look whether the loss still holds on to its graph."""
    model = small_model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    loss = candidate(model, optimizer, *batch_of(0), SMOOTHING)
    return {"the loss keeps its graph": isinstance(loss, Tensor) and loss.requires_grad}


def swapped(ids: Tensor) -> Tensor:
    """Let 3 and 0 change places."""
    return ids.clone().masked_fill(ids == 0, 3).masked_fill(ids == 3, 0)


EXERCISES = (
    Exercise(
        "training_step",
        "training",
        15,
        (
            step_case("one batch", BATCHES[:1]),
            step_case("two batches, one after the other", BATCHES),
            step_case("pad_id=3", [tuple(map(swapped, batch)) for batch in BATCHES], pad_id=3),
            step_case(
                "a Transformer and a target of max_len + 1",
                BATCHES[:1],
                kind=SmallTransformer,
                max_len=4,
            ),
            value_trial(
                "a look at the loss",
                graph_kept,
                {"the loss keeps its graph": False},
                says="Return `loss.detach()`: who keeps the loss need not keep the whole graph.",
            ),
        ),
        (
            "Cut `tgt` twice: what the model reads, all but the last column, and what it must say, "
            "all but the first.",
            "The loss needs `pad_id=model.config.pad_id` and `smoothing=smoothing`.",
            "Old gradients go first (`optimizer.zero_grad()`), then `loss.backward()`, then "
            "`optimizer.step()`.",
        ),
    ),
)
