"""Time and weigh several things fairly: by turns, in one process, in processor time."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.exc import InvalidCxxCompiler

Row = dict[str, Any]  # what one line of a table says, in numbers
HEAD = f"{'seconds':>9} {'ratio':>6} {'min':>6} {'max':>6}"  # of what ``cells`` writes


def seconds(act: Callable[[], object], times: int = 1) -> float:
    """Time some acts in a row, and return the seconds of the fastest.

    It is processor time: with one thread as good as the clock, and other programs do not count.
    """
    found = []
    for _ in range(times):
        start = time.process_time()
        act()
        found.append(time.process_time() - start)
    return min(found)


def in_turns(
    acts: Sequence[Callable[[], object]], rounds: int, times: int = 1
) -> list[tuple[float, ...]]:
    """Time all by turns, so that a machine that is busy for a while is busy for all.

    Args:
        acts: What is timed.
        rounds: How often each has its turn; every other round goes backwards.
        times: Acts in a turn, of which the fastest counts.

    Returns:
        For each round the seconds of every act.
    """
    found = []
    for number in range(rounds):
        order = range(len(acts))[:: -1 if number % 2 else 1]
        spent = {place: seconds(acts[place], times) for place in order}
        found.append(tuple(spent[place] for place in range(len(acts))))
    return found


def median_and_range(values: Sequence[float]) -> dict[str, float]:
    """Say median and range, to five digits."""
    found = {"median": median(values), "min": min(values), "max": max(values)}
    return {name: float(f"{value:.5g}") for name, value in found.items()}


def compared(
    table: str, name: str, spent: Sequence[float], first: Sequence[float], **more: Any
) -> Row:
    """Make a row: how long something took, and how many times as fast as the first it was.

    Args:
        table: To which table it belongs.
        name: What was timed.
        spent: Its seconds in every round.
        first: Those of what it is compared with, in the same rounds.
        more: What else the row says.
    """
    ratios = [other / one for one, other in zip(spent, first, strict=True)]
    times = {
        "seconds": median_and_range(spent),
        "ratio": median_and_range(ratios),
        "rounds": len(spent),
    }
    return {"table": table, "name": name, **times, **more}


def cells(row: Row) -> str:
    """Write a row's median of seconds, then median and range of its ratio."""
    ratio = " ".join(f"{row['ratio'][name]:6.2f}" for name in ("median", "min", "max"))
    return f"{row['seconds']['median']:9.4f} {ratio}"


def can_compile() -> bool:
    """Say whether ``torch.compile`` finds the C++ compiler that it needs on a processor."""
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        print("torch.compile finds no C++ compiler here: what it would compile is left out")
        return False
    return True


def kept_bytes(model: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Count the bytes that autograd keeps for the backward pass: each storage once, no weights."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def pack(tensor: Tensor) -> Tensor:
        """Note what is kept; the storage is held, so that no address serves twice."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = forward()
    del result
    return sum(storage.nbytes() for storage in kept.values())
