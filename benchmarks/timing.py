"""Time several actions in turns, in one process, in processor time."""

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
TURN = 0.2  # seconds: a shorter action is repeated for this long
CLOSE_LOSSES = 1e-3
SAME_TOKENS = 0.9  # rounding may decide between two tokens of almost the same score


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
    kept_mib: float
    passed: int


def in_turns(actions: Sequence[Action], rounds: int) -> list[list[float]]:
    """Time all actions in turns, so that a machine that is busy for a while is busy for all.

    It is processor time on one thread, so other programs do not count. Each turn begins with a
    run that is not timed. Every other round goes backward.

    Returns:
        For each action the seconds of one run, in every round.
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
    """Compute the median and the range, to five digits."""
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
    """Make a row: the seconds of an action, and how many times as fast as the baseline it is.

    Args:
        table: The table that the row belongs to.
        name: The name of the action.
        seconds: Its seconds in every round.
        baseline: The seconds of what it is compared with, in the same rounds.
        amount: How much more work the action does in one run than the baseline does.
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
    """Write a row as text: its table, its name, and its numbers."""
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
    """Check whether ``torch.compile`` finds the C++ compiler that it needs on a processor."""
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        print("torch.compile finds no C++ compiler here, so the compiled rows are left out")
        return False
    return True


def require_close_losses(ours: float, other: float) -> None:
    """Raise RuntimeError if two models that should be the same differ in their loss."""
    if not abs(ours - other) <= CLOSE_LOSSES:
        raise RuntimeError(f"the losses {ours} and {other} differ: not the same model")


def require_same_tokens(ours: Tensor, other: Tensor, *, same: float = SAME_TOKENS) -> None:
    """Raise RuntimeError if too few tokens agree, or if one side wrote more than the other."""
    agreement = (ours == other).float().mean().item() if ours.shape == other.shape else 0.0
    if agreement < same:
        raise RuntimeError(f"{agreement:.0%} of the tokens agree: not the same model")


def saved_mib(model: nn.Module, forward: Callable[[], Tensor]) -> float:
    """Measure the MiB saved for the backward pass: each storage once, without the weights."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved = {}

    def pack(tensor: Tensor) -> Tensor:
        """Collect the storage; holding it keeps its address from being used again."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    del result
    return round(sum(storage.nbytes() for storage in saved.values()) / 2**20, 2)
