"""What is asked of chapter 11."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.small_models import small_model
from course_lib.exercises.trial import T, Trial, by_name, function_trial, looks, normal, observe
from course_lib.training import translation_loss

V = 7
TARGETS = torch.tensor([[5, 0, 2, 1], [6, 3, 3, 3]])  # (2, T): with pad_id=3, four and one
WITH_ZEROS = torch.tensor([[5, 3, 2, 0], [6, 0, 0, 0]])  # (2, T): with pad_id=0, three and one
SQUARE = torch.tensor([[3, 1, 0], [1, 2, 0], [2, 0, 0]])  # (3, 3), with 4 entries
WARMUP, D_MODEL = 5, 16
LR = 0.5
SMOOTHING = dict(smoothing=0.3)
RATES = (LR, 0.25)
CLIP = "`nn.utils.clip_grad_norm_(model.parameters(), clip_norm)` comes right before the step."
BATCHES = [  # with pad_id=0: source (2, 3) and target (2, 5), from bos 1 to eos 2
    (torch.tensor([[7, 8, 9], [6, 10, 0]]), torch.tensor([[1, 9, 5, 3, 2], [1, 6, 2, 0, 0]])),
    (torch.tensor([[10, 4, 6], [3, 9, 0]]), torch.tensor([[1, 7, 10, 2, 0], [1, 3, 4, 8, 2]])),
]
WITH_THREES = tuple(ids + 3 * (ids == 0).long() - 3 * (ids == 3).long() for ids in BATCHES[0])
FORMULA = (
    "Minus the log-probability of the right token, times 1 - smoothing, and minus the mean "
    "log-probability of all entries that may be written, times smoothing."
)
PADDING = (
    "A target that is padding counts for nothing: not in the sum, and not in the number by which "
    "the sum is divided."
)
EQUATION = "Equation (3): 1/√d_model times the smaller of 1/√step and step / warmup^1.5."
SHIFT = "The loss compares what the model predicts after `tgt[:, :-1]` with `tgt[:, 1:]`."
STEP = (
    "Every weight moves once, against the sum of its gradients of all losses, and the step returns "
    "the sum of the losses."
)


def scores(targets: Tensor = TARGETS, num: int = V, size: float = 2.5) -> dict[str, Tensor]:
    """Make logits for some targets."""
    return {"logits": size * normal("logits", *targets.shape, num), "targets": targets}


def loss(label: str, given: dict | None = None, **options: Any) -> Trial:
    """Compare a loss and its gradients."""
    says = f"{PADDING} {FORMULA}" if "pad_id" in options else FORMULA
    return function_trial(label, given or scores(), ("loss",), options=options, says=says)


@looks(
    "equal scores for all tokens",
    "Every token then has probability 1/V, and the surprise is ln V nats.",
)
def uniform(candidate: Callable) -> dict[str, float]:
    """Ask what a model costs that finds every token equally likely."""
    return {"loss of equal scores": float(candidate(torch.zeros(2, T, V), TARGETS.clone()))}


def rates(label: str, steps: Any, d_model: int, warmup_steps: int) -> Trial:
    """Compare the rates of some steps."""

    @looks(label, EQUATION, "equality")
    def act(candidate: Callable) -> dict[str, float]:
        """Ask for each."""
        return {f"rate of step {n}": float(candidate(n, d_model, warmup_steps)) for n in steps}

    return act


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Copy all weights."""
    return {name: parameter.detach().clone() for name, parameter in by_name(model).items()}


def shifted(
    label: str,
    batch: tuple[Tensor, ...] = BATCHES[0],
    pad_id: int = 0,
    max_len: int = 6,
    **how: Any,
) -> Trial:
    """Compare the loss of a batch, and the gradients of all weights."""

    def act(candidate: Callable) -> Outcome:
        """Call it on a new model."""
        model = small_model(pad_id, max_len).train()
        call = lambda now: candidate(model, *now.values(), pad_id=pad_id, **how)  # noqa: E731
        given = dict(zip(("src", "tgt"), batch, strict=True))
        return observe(call, given, ("loss",), by_name(model))

    return Trial(label, act, says=f"{SHIFT} {PADDING}")


def stepped(
    label: str, steps: list, rates: tuple = (LR,), groups: int = 1, says: str = STEP, **options: Any
) -> Trial:
    """Compare losses and weights after some steps; tell why where nothing moves.

    Args:
        label: What is special about it.
        steps: For each step the batches of its losses: one in a list, several from a generator.
        rates: The learning rate of each step.
        groups: Parameter groups of the optimizer.
        says: What a wrong value means here.
        options: Arguments given by name.
    """

    def act(candidate: Callable) -> Outcome:
        """Make the steps."""
        model = small_model().train()
        before, calls = weights_of(model), set()
        parts = [{"params": [*model.parameters()][first::groups]} for first in range(groups)]
        optimizer = torch.optim.SGD(parts, lr=0.1)
        optimizer.register_step_pre_hook(lambda *_: calls.add("optimizer.step"))
        next(model.parameters()).register_hook(lambda _: calls.add("loss.backward"))
        shown: dict[str, Any] = {}
        for n, (batches, rate) in enumerate(zip(steps, rates, strict=True), start=1):
            losses = (translation_loss(model, *batch, pad_id=0) for batch in batches)
            losses = losses if batches[1:] else [*losses]
            value = candidate(model, optimizer, losses, rate, **options)
            shown[f"loss of step {n}"] = value.detach() if isinstance(value, Tensor) else value
        shown["weights"] = weights_of(model)
        if all(torch.equal(old, shown["weights"][name]) for name, old in before.items()):
            left = any(parameter.grad is not None for parameter in model.parameters())
            shown["nothing moves"] = {"calls": " ".join(sorted(calls)), "gradients left": left}
        return Outcome(shown)

    return Trial(label, act, says=says)


@looks("the returned loss", "Detach the losses, so that nobody who keeps them keeps their graphs.")
def graph_kept(candidate: Callable) -> dict[str, bool]:
    """Look whether the loss still holds on to its graph."""
    model = small_model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    value = candidate(model, optimizer, [translation_loss(model, *BATCHES[0], pad_id=0)], LR)
    return {"the loss keeps its graph": isinstance(value, Tensor) and value.requires_grad}


EXERCISES = (
    Exercise(
        "label_smoothed_cross_entropy",
        "training",
        30,
        core={
            "formula": (loss("every target real, and the smoothing of 0.1"), uniform),
            "padding": (
                loss("pad_id=3", pad_id=3),
                loss("pad_id=0", scores(WITH_ZEROS), pad_id=0),
                loss("sizes that are all equal", scores(SQUARE, 4), pad_id=0),
            ),
        },
        hints=(
            "Turn the logits into log-probabilities over the last axis. One term reads them at the "
            "right token, the other averages them over all entries that may be written.",
            "`log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)` reads the right tokens. "
            "The doubt goes to all V entries without `pad_id`; with it, to the V - 1 that are not "
            "padding, the right one included.",
            "With `pad_id`, set the losses where `targets == pad_id` to 0, add up the rest, and "
            "divide by how many targets are real. (`pad_id` may be 0: ask `is None`.)",
        ),
        extras={
            "smoothing": (
                loss("pad_id=3 and smoothing=0.3", pad_id=3, smoothing=0.3),
                loss("pad_id=0 and smoothing=0", scores(WITH_ZEROS), pad_id=0, smoothing=0.0),
            ),
            "large logits": (loss("logits in the hundreds", scores(size=150), pad_id=3),),
            "single token": (loss("a single token", scores(torch.tensor(5)), pad_id=3),),
        },
    ),
    Exercise(
        "warmup_inverse_sqrt",
        "training",
        10,
        core={
            "warm-up": (rates("the steps of the warm-up", range(1, 6), D_MODEL, WARMUP),),
            "decay": (rates("the steps behind the peak", range(6, 12), D_MODEL, WARMUP),),
            "d_model": (
                rates("a wider model", (1, 2, 3, 6), 25, 2),
                rates("a warm-up of one step", (1, 2, 3), 4, 1),
            ),
        },
        hints=(
            "Two curves, and the rate is the smaller of them: a line through 0, and 1/√step.",
            "`d_model**-0.5 * min(…, …)`; the line is `step * warmup_steps**-1.5`.",
        ),
    ),
    Exercise(
        "translation_loss",
        "training",
        5,
        core={
            "shift": (shifted("a padded batch"), shifted("the next batch", BATCHES[1])),
            "padding": (shifted("pad_id=3", WITH_THREES, pad_id=3),),
            "max_len": (shifted("a target of max_len + 1", max_len=4),),
        },
        hints=(
            "Cut `tgt` twice: the model reads all but the last column, and it must predict all but "
            "the first.",
            "`label_smoothed_cross_entropy` needs `pad_id=pad_id` and `smoothing=smoothing`.",
        ),
        extras={"smoothing": (shifted("smoothing=0.3", **SMOOTHING),)},
    ),
    Exercise(
        "training_step",
        "training",
        10,
        core={
            "one step": (stepped("one loss", [BATCHES[:1]]),),
            "two steps": (
                stepped("another rate in the second step", [[b] for b in BATCHES], RATES),
            ),
            "several losses": (stepped("two losses from a generator", [BATCHES]),),
        },
        hints=(
            "Old gradients go first (`optimizer.zero_grad()`). Then each loss adds its own, by "
            "`loss.backward()`.",
            'Each of `optimizer.param_groups` is a dict; write the rate to `group["lr"]`. Then '
            "call `optimizer.step()` once.",
        ),
        extras={
            "parameter groups": (stepped("two parameter groups", [BATCHES[:1]], groups=2),),
            "clip_norm": (
                stepped("clip_norm=0.2", [BATCHES[:1]], says=CLIP, clip_norm=0.2),
                stepped("a clip_norm that is not reached", [BATCHES[:1]], clip_norm=1e3),
            ),
            "detached loss": (graph_kept,),
        },
    ),
)
