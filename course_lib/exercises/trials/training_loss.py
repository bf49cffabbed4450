"""What is asked of the loss: it is the cross-entropy with a distribution that is written down."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import T, Trial, function_trial, normal, value_trial

V = 7
TARGETS = torch.tensor([[5, 0, 2, 1], [6, 3, 3, 3]])  # (2, T): with pad_id=3, four and one
WITH_ZEROS = torch.tensor([[5, 3, 2, 0], [6, 0, 0, 0]])  # (2, T): with pad_id=0, three and one


def cross_entropy(
    logits: Tensor, targets: Tensor, *, pad_id: int | None = None, smoothing: float = 0.1
) -> Tensor:
    """Write down which distribution is asked for, and give it to torch's cross-entropy."""
    num = logits.size(-1)
    scores, right = logits.reshape(-1, num), targets.reshape(-1)
    doubt = torch.ones(num)
    if pad_id is not None:
        scores, right, doubt[pad_id] = scores[right != pad_id], right[right != pad_id], 0
    asked = (1 - smoothing) * F.one_hot(right, num) + smoothing * doubt / doubt.sum()
    return F.cross_entropy(scores, asked)


def inputs(targets: Tensor = TARGETS, num: int = V, size: float = 2.5) -> dict[str, Tensor]:
    """Make logits for some targets."""
    return {"logits": size * normal("logits", *targets.shape, num), "targets": targets}


def tried(label: str, given: dict | None = None, **options: Any) -> Trial:
    """Compare loss and gradients with those of the distribution written down."""
    return function_trial(
        label, given or inputs(), cross_entropy, ("loss",), options=options, says=FORMULA
    )


FORMULA = (
    "Minus the log-probability of the right token, times 1 - smoothing, and minus the mean "
    "log-probability of all entries that may be written, times smoothing."
)


def padding_heard(candidate: Callable) -> dict[str, bool]:
    """Give other logits where there is padding, and look whether the loss changes."""
    logits = inputs()["logits"]
    other = torch.where((TARGETS == 3).unsqueeze(-1), 4 * normal("other", V), logits)
    losses = [candidate(x, TARGETS.clone(), pad_id=3, smoothing=0.3) for x in (logits, other)]
    return {"logits at padding are heard": not torch.allclose(*losses, atol=1e-4)}


def padding_dilutes(candidate: Callable) -> dict[str, bool]:
    """Put more padding at the end, and look whether the loss changes."""
    logits = inputs()["logits"]
    longer = F.pad(logits, (0, 0, 0, 3)), F.pad(TARGETS, (0, 3), value=3)
    losses = [
        candidate(*given, pad_id=3, smoothing=0.3) for given in ((logits, TARGETS.clone()), longer)
    ]
    return {"more padding changes the loss": not torch.allclose(*losses, atol=1e-4)}


def uniform(candidate: Callable) -> dict[str, Any]:
    """Ask what a model costs that finds every token equally likely."""
    loss = candidate(torch.zeros(2, T, V), TARGETS.clone(), pad_id=3, smoothing=0.3)
    return {"loss of equal scores": float(loss)}


EXERCISES = (
    Exercise(
        "label_smoothed_cross_entropy",
        "training",
        30,
        (
            tried("no padding and no smoothing", smoothing=0.0),
            tried("smoothing=0.3", smoothing=0.3),
            tried("pad_id=0 and no smoothing", inputs(WITH_ZEROS), pad_id=0, smoothing=0.0),
            tried("pad_id=0 and smoothing=0.3", inputs(WITH_ZEROS), pad_id=0, smoothing=0.3),
            tried("pad_id=3 and smoothing=0.3", pad_id=3, smoothing=0.3),
            tried(
                "sizes that are all equal",
                inputs(torch.tensor([[3, 1, 0], [1, 2, 0], [2, 0, 0]]), 3 + 1),
                pad_id=0,
                smoothing=0.3,
            ),
            tried("a single token", inputs(torch.tensor(5)), pad_id=3, smoothing=0.3),
            value_trial(
                "other logits at padding",
                padding_heard,
                {"logits at padding are heard": False},
                says="A target that is padding counts for nothing, whatever the logits there.",
            ),
            value_trial(
                "more padding",
                padding_dilutes,
                {"more padding changes the loss": False},
                says="The mean runs over real tokens only: divide by their number.",
            ),
            value_trial(
                "equal scores for all tokens",
                uniform,
                {"loss of equal scores": math.log(V)},
                says="Every token then has probability 1/V, and the surprise is ln V nats.",
            ),
            tried("logits in the hundreds", inputs(size=150), pad_id=3, smoothing=0.3),
        ),
        (
            "Turn the logits into log-probabilities over the last axis. One term reads them at the "
            "right token, the other averages them over all entries that may be written.",
            "`log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)` reads the right tokens. "
            "The doubt goes to all V entries without `pad_id`; with it, to the V - 1 that are not "
            "padding, the right one included.",
            "With `pad_id`, set the losses where `targets == pad_id` to 0, add up the rest, and "
            "divide by how many targets are real. (`pad_id` may be 0: ask `is None`.)",
        ),
    ),
)
