"""Time several things fairly: by turns, in one process, in processor time."""

import time
from collections.abc import Callable, Sequence


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
