"""What is asked of a training: the weights of gradient descent by hand, and what it tells."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import tqdm.std
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, value_trial
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trials.schedules import number
from course_lib.exercises.trials.small_models import small_model
from course_lib.exercises.trials.training_steps import SMOOTHING, batch_of, walk, weights_of


@contextmanager
def no_bar() -> Iterator[None]:
    """Let no progress bar appear while an attempt is tried."""
    begin = tqdm.std.tqdm.__init__

    def disabled(self: Any, *args: Any, **kwargs: Any) -> None:
        """Begin, and show nothing."""
        begin(self, *args, **kwargs | {"disable": True})

    with patch.object(tqdm.std.tqdm, "__init__", disabled):
        yield


def rate(step: int) -> float:
    """Give a rate that is another one in each of seven steps."""
    return 0.6 * 0.7 ** (step % 7)


class Diary:
    """Run a training, and write down what it asks for and what it tells.

    Args:
        candidate: What is tried in place of ``train``.
        first_step: The first step; not handed over if it is 1.
        steps: The last step.
        listens: Whether an ``after_step`` is handed over.
        training: The mode in which the model comes.
    """

    def __init__(
        self,
        candidate: Callable,
        first_step: int = 1,
        steps: int = 4,
        listens: bool = True,
        training: bool = False,
    ) -> None:
        self.steps = steps
        self.asked: list[int] = []
        self.rates: list[list[float]] = []
        self.told: list[tuple[int, Any]] = []
        self.moved: list[bool] = []
        self.model = small_model().train(training)
        self.start = weights_of(self.model)
        first, *others = self.model.parameters()
        self.optimizer = torch.optim.SGD([{"params": [first]}, {"params": others}], lr=1.0)
        self.optimizer.register_step_pre_hook(self._note_rates)
        options = {"first_step": first_step} if first_step > 1 else {}
        options |= {"after_step": self._listen} if listens else {}
        given = (self.model, self.optimizer, self._make_batch)
        with no_bar():
            self.losses = candidate(
                *given, steps=steps, rate=self._rate, smoothing=SMOOTHING, **options
            )

    def _rate(self, step: int) -> float:
        """Give the rate of a step, as long as there is one."""
        if step > self.steps:
            raise ValueError(f"there is no rate for step={step}: steps={self.steps}")
        return rate(step)

    def _make_batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Note the step, and give its batch."""
        self.asked.append(step)
        if len(self.asked) > 60:
            raise RuntimeError("make_batch was called 60 times: does this loop end?")
        return batch_of(step)

    def _note_rates(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Note the rates of both groups when the weights are corrected."""
        self.rates.append([float(group["lr"]) for group in optimizer.param_groups])

    def _listen(self, step: int, loss: Any) -> None:
        """Note what is told after a step, and whether the weights have moved since the last."""
        now = weights_of(self.model)
        self.told.append((step, loss))
        self.moved.append(any(not torch.equal(old, now[n]) for n, old in self.start.items()))
        self.start = now


def trained(candidate: Callable, weights: bool, **options: Any) -> dict[str, Any]:
    """Train, and return what came out."""
    diary = Diary(candidate, **options)
    return came_out(diary.losses, weights_of(diary.model) if weights else {})


def came_out(losses: Any, weights: dict[str, Tensor]) -> dict[str, Any]:
    """Show the losses, how many they are, and the weights."""
    count = {"number of losses": len(losses)} if isinstance(losses, list | tuple) else {}
    return {"losses": losses, "weights": weights} | count


def training_case(label: str, first_step: int, steps: int, weights: bool) -> Trial:
    """Compare the losses of a training, and the weights behind it, with those by hand."""
    options = dict(first_step=first_step, steps=steps, listens=False)

    def wanted() -> Outcome:
        """Walk down by hand."""
        made = range(first_step, steps + 1)
        rates = [rate(step) for step in made]
        losses, moved = walk(small_model(), [batch_of(step) for step in made], rates)
        return Outcome(came_out([loss.item() for loss in losses], moved if weights else {}))

    return Trial(
        label,
        lambda candidate: Outcome(trained(candidate, weights, **options)),
        wanted,
        "equality",
        "Every step corrects the weights once, with the batch and at the rate of this step.",
    )


def rates_set(candidate: Callable) -> dict[str, str]:
    """Return the rates at which the weights were corrected, group by group."""
    groups = zip(*Diary(candidate).rates, strict=True)
    shown = [", ".join(f"{lr:.3f}" for lr in rates) for rates in groups]
    return {f"rates of group {i}": text for i, text in enumerate(shown, start=1)}


def batches_asked(candidate: Callable) -> dict[str, str]:
    """Return the steps for which batches were asked."""
    return {"batches of steps": str(list(dict.fromkeys(Diary(candidate, 3, 6).asked)))}


def told_after(candidate: Callable) -> dict[str, Any]:
    """Return what ``after_step`` was told, and whether the weights had moved by then."""
    diary = Diary(candidate, 49, 51)
    losses = [f"{number(loss):.2f}" for loss in diary.losses or []]
    return {
        "after_step was told of steps": str([step for step, _ in diary.told]),
        "with their losses": losses == [f"{number(loss):.2f}" for _, loss in diary.told],
        "when the weights had moved": all(diary.moved),
    }


def modes(candidate: Callable) -> dict[str, bool]:
    """Look whether the model was in training mode while it learned."""
    return {
        f"always in training mode, coming in {mode} mode": all(
            Diary(candidate, training=mode == "training").model.modes["decoder"]
        )
        for mode in ("eval", "training")
    }


def losses_kept(candidate: Callable) -> dict[str, Any]:
    """Look whether the losses hold on to their graphs."""
    losses = Diary(candidate).losses
    kept = [isinstance(x, Tensor) and x.requires_grad for x in losses or []]
    return {"losses keep their graphs": any(kept)}


EXERCISES = (
    Exercise(
        "train",
        "training",
        20,
        (
            training_case("steps 1 to 4", 1, 4, weights=False),
            training_case("first_step=3 and steps=6", 3, 6, weights=True),
            value_trial(
                "a look at the rates",
                rates_set,
                {
                    f"rates of group {i}": ", ".join(f"{rate(s):.3f}" for s in (1, 2, 3, 4))
                    for i in (1, 2)
                },
                says="Before each step, every group of the optimizer gets `rate(step)`.",
            ),
            value_trial(
                "first_step=3, steps=6, and a look at make_batch",
                batches_asked,
                {"batches of steps": "[3, 4, 5, 6]"},
                says="Every step has its own batch, `make_batch(step)`; `steps` is the last one.",
            ),
            value_trial(
                "first_step=49, steps=51 and an after_step",
                told_after,
                {
                    "after_step was told of steps": "[49, 50, 51]",
                    "with their losses": True,
                    "when the weights had moved": True,
                },
                says="Once the weights have moved, `after_step(step, loss)` is called.",
            ),
            value_trial(
                "a look at what is kept",
                losses_kept,
                {"losses keep their graphs": False},
                says="Keep numbers: a loss that was not detached keeps its whole graph.",
            ),
            value_trial(
                "a look at the mode",
                modes,
                {
                    f"always in training mode, coming in {mode} mode": True
                    for mode in ("eval", "training")
                },
                stage="train and eval",
                says="Say `model.train()` first: without it dropout stays off.",
            ),
        ),
        (
            "Before the loop: `model.train()`. The loop runs from `first_step` to `steps`, the "
            "last one included.",
            'In each step: set `group["lr"] = rate(step)` in every group of '
            "`optimizer.param_groups`, take `make_batch(step)`, call `training_step`, then "
            "`after_step(step, loss)`.",
            "Keep the losses, and return them as numbers: `[loss.item() for loss in losses]`.",
        ),
    ),
)
