"""Time and weigh several things fairly: by turns, in one process, in processor time."""

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
from torch import Tensor, nn


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


def ratio_cells(spent: Sequence[float], first: Sequence[float]) -> str:
    """Write the median, then median and range of how many times as fast as the first it is."""
    ratios = [other / one for one, other in zip(spent, first, strict=True)]
    return f"{median(spent):9.4f} {median(ratios):6.2f} {min(ratios):6.2f} {max(ratios):6.2f}"


def kept_bytes(model: nn.Module, forward: Callable[[], Tensor]) -> int:
    """Count the memory that autograd keeps for the way back: each storage once, no parameters."""
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
