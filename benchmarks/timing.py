"""Measure the processor time of several actions that take turns in one process."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import TypedDict

import torch
from torch import Tensor, nn
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.exc import InvalidCxxCompiler
from torch.utils.benchmark import Timer

Action = Callable[[], object]
TURN = 0.2  # seconds for which a short action is repeated
CLOSE_LOSSES = 1e-3
SAME_TOKENS = 0.9  # rounding can decide between tokens with almost the same score


class Spread(TypedDict):
    """The median and the range of several measurements."""

    median: float
    min: float
    max: float


class Row(TypedDict, total=False):
    """One row of the record: its table, its name, and the numbers measured for it."""

    table: str
    name: str
    seconds: float | Spread
    milliseconds: Spread
    ratio: Spread
    rounds: int
    length: int
    new_tokens: int
    same: float
    kept_mib: float


def in_turns(actions: Sequence[Action], rounds: int) -> list[list[float]]:
    """Time all actions in turns, so that a busy phase of the machine affects all of them.

    We measure processor time on one thread, so other programs do not count. Each turn begins with a
    run that is not timed, and every other round goes backward.

    Returns:
        For each action, the seconds of one run in every round.
    """
    timers = [
        Timer("action()", globals={"action": action}, timer=time.process_time) for action in actions
    ]
    seconds: list[list[float]] = [[] for _ in timers]
    for number in range(rounds):
        order = list(zip(timers, seconds, strict=True))
        if number % 2:
            order.reverse()
        for timer, measured in order:
            measured.append(timer.blocked_autorange(min_run_time=TURN).median)
    return seconds


def median_and_range(values: Sequence[float]) -> Spread:
    """Compute the median and the range, rounded to five digits."""
    middle, low, high = (float(f"{x:.5g}") for x in (median(values), min(values), max(values)))
    return {"median": middle, "min": low, "max": high}


def compared(
    table: str,
    name: str,
    seconds: Sequence[float],
    baseline: Sequence[float],
    *,
    amount: float = 1,
) -> Row:
    """Return a row with an action's seconds, and its speed relative to the baseline.

    Args:
        table: The table that the row belongs to.
        name: The name of the action.
        seconds: The seconds of the action in every round.
        baseline: The seconds of the baseline in the same rounds.
        amount: The work of the action in one run, relative to the baseline's.
    """
    ratios = [amount * other / own for own, other in zip(seconds, baseline, strict=True)]
    return {
        "table": table,
        "name": name,
        "seconds": median_and_range(seconds),
        "ratio": median_and_range(ratios),
        "rounds": len(seconds),
    }


def line(row: Row) -> str:
    """Format a row as text, with its table, its name and its numbers."""
    numbers = []
    for key, value in row.items():
        if isinstance(value, dict):
            numbers.append(
                f"{key} {value['median']:.4g} ({value['min']:.4g} to {value['max']:.4g})"
            )
        elif key not in ("table", "name"):
            numbers.append(f"{key} {value}")
    return f"{row['table']}, {row['name']}: {', '.join(numbers)}"


def can_compile() -> bool:
    """Return whether ``torch.compile`` finds the C++ compiler that it needs on a CPU."""
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        print("torch.compile does not find a C++ compiler, so the compiled rows are left out")
        return False
    return True


def require_close_losses(ours: float, other: float) -> None:
    """Raise RuntimeError if two models that should be the same differ in their loss."""
    if not abs(ours - other) <= CLOSE_LOSSES:
        raise RuntimeError(f"the losses {ours} and {other} differ, so the models are not the same")


def require_same_tokens(ours: Tensor, other: Tensor, *, same: float = SAME_TOKENS) -> None:
    """Raise RuntimeError if too few tokens agree, or if one side generated more tokens."""
    agreement = (ours == other).float().mean().item() if ours.shape == other.shape else 0.0
    if agreement < same:
        raise RuntimeError(f"{agreement:.0%} of the tokens agree, so the models are not the same")


def saved_mib(model: nn.Module, forward: Callable[[], Tensor]) -> float:
    """Measure the MiB saved for the backward pass, counting each storage once and no weights."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved = {}

    def pack(tensor: Tensor) -> Tensor:
        """Collect the storage, because its address cannot be reused while we hold it."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    del result
    return round(sum(storage.nbytes() for storage in saved.values()) / 2**20, 2)
