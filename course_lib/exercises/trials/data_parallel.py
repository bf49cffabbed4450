"""What is asked of chapter 22: a batch dealt out, each row once; then what a share weighs."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, refuses, value_trial
from course_lib.exercises.outcomes import Outcome, describe
from course_lib.exercises.trials.token_loss_scale import EXERCISES as WEIGHT

EVEN = {(8, 2), (6, 3), (3, 3), (4, 1)}
UNEVEN = {(7, 3), (9, 4), (10, 3), (5, 2), (11, 8)}
FEW = {(2, 5), (1, 3), (0, 2)}
SIZES = sorted(EVEN | UNEVEN | FEW, reverse=True)
OTHERS = {  # rows of other kinds, and among how many they are dealt
    "letters of a text": ("abcdefg", 3),
    "pairs in a tuple": (((3, "a"), (1, "b"), (2, "c"), (5, "d"), (4, "e")), 2),
    "lists of ids": ([[7, 8], [9], [4, 5, 6], [3], [2, 2]], 2),
    "rows that are equal": ([5, 5, 3, 5, 3, 3, 3, 5], 3),
}
NO_PROCESS = {
    "rank 3 of 3": (3, 3),
    "rank 7 of 3": (7, 3),
    "rank -1 of 3": (-1, 3),
    "rank 0 of no processes": (0, 0),
    "rank 1 of one process": (1, 1),
}
LOST, TWICE = "rows that no process gets", "rows too many"
APART, NEIGHBOURS = "two shares apart by more than a row", "neighbours in one share"


def listed(answer: Any) -> list:
    """Return the rows of any sequence as a list.

    Raises:
        TypeError: If it is none.
    """
    if not isinstance(answer, Sequence | Tensor) and not hasattr(answer, "tolist"):
        raise TypeError(f"a list should come out, and not {type(answer).__name__}")
    return [row.item() if hasattr(row, "item") else row for row in answer]


def dealt(candidate: Callable, rows: Sequence, world_size: int) -> tuple[list[list], bool]:
    """Let every process ask for its share; say whether the rows are other ones afterwards."""
    shares, changed = [], False
    for rank in range(world_size):
        copy = deepcopy(rows)
        shares.append(listed(candidate(copy, rank, world_size)))
        changed |= copy != rows
    return shares, changed


def tried(label: str, trials: Mapping[str, tuple], read: Callable, stage: str, says: str) -> Trial:
    """Deal in every trial; ``read`` makes named values of the shares and what was dealt."""

    def act(candidate: Callable) -> Outcome:
        """Deal, and look for changes."""
        values, changed = {}, False
        for name, (rows, world_size) in trials.items():
            shares, other = dealt(candidate, rows, world_size)
            values |= read(name, shares, rows)
            changed |= other
        return Outcome(values, {}, ("rows",) if changed else ())

    return Trial(label, act, lambda: act(by_hand), stage, says)


def by_hand(rows: Sequence, rank: int, world_size: int) -> list:
    """Deal one card after the other, and hand out one hand."""
    hands = [[] for _ in range(world_size)]
    for place, row in enumerate(rows):
        hands[place % world_size].append(row)
    return hands[rank]


def of_size(rows: int, world_size: int) -> tuple[list[int], int]:
    """Make rows that can be told apart, from the shortest to the longest."""
    return list(range(10, 10 + rows)), world_size


def named(sizes: Sequence[tuple[int, int]]) -> dict[str, tuple]:
    """Name trials by their sizes."""
    return {f"{rows} among {among}": of_size(rows, among) for rows, among in sizes}


def faults(name: str, shares: list[list], rows: Sequence) -> dict[str, int]:
    """Count what is wrong with shares, in whichever order."""
    flat, sizes = sum(shares, []), [len(share) for share in shares]
    places = [[rows.index(row) for row in share if row in rows] for share in shares]
    return {
        f"{LOST}, {name}": len(set(rows) - set(flat)),
        f"{TWICE}, {name}": len(flat) - len(set(rows) & set(flat)),
        f"{APART}, {name}": max(sizes) - min(sizes) > 1,
        f"{NEIGHBOURS}, {name}": sum(
            abs(a - b) == 1 for share in places for a in share for b in share
        )
        if len(shares) > 1
        else 0,
    }


def only(what: str) -> Callable:
    """Look at one kind of fault."""
    return lambda *given: {k: v for k, v in faults(*given).items() if k.startswith(what)}


def told(name: str, shares: list[list], _: Sequence) -> dict[str, str]:
    """Write every share out."""
    return {f"the share of rank {rank}, {name}": str(share) for rank, share in enumerate(shares)}


def kind(candidate: Callable) -> dict[str, str]:
    """Name what comes out."""
    rows = [10, 11, 12, 13, 14]
    answer = candidate(list(rows), 1, 2)
    try:
        known = all(row in rows for row in listed(answer))
    except TypeError:
        return {"what comes out": type(answer).__name__}
    return {"what comes out": "rows of the batch" if known else describe(answer)}


PROMISES = (
    (LOST, "Every row is for one process: also where they cannot be shared out evenly."),
    (TWICE, "No row is for two processes, and none is repeated to fill a share up."),
    (APART, "Shares are of one size, or one row apart."),
    (
        NEIGHBOURS,
        "Rows are dealt like cards: the next row goes to the next process, so that no one gets "
        "all the long ones of a sorted batch.",
    ),
)

EXERCISES = (
    Exercise(
        "split_batch",
        "data_parallel",
        8,
        (
            value_trial(
                "five rows between two",
                kind,
                {"what comes out": "rows of the batch"},
                stage="shape",
                says="A list should come out, and in it rows of the batch as they are.",
            ),
            *(
                tried("numbered rows", named(SIZES), only(what), "property", says)
                for what, says in PROMISES
            ),
            tried(
                "numbered rows",
                named(SIZES),
                told,
                "equality",
                "Every `world_size`-th row, from row `rank` on, in the order of the batch.",
            ),
            tried(
                "rows of other kinds",
                OTHERS,
                told,
                "equality",
                "Rows are dealt by their place, whatever they hold.",
            ),
            value_trial(
                "ranks that no process has",
                lambda candidate: {
                    name: refuses(candidate, [10, 11, 12, 13, 14], *given)
                    for name, given in NO_PROCESS.items()
                },
                dict.fromkeys(NO_PROCESS, "a ValueError"),
                says="Ranks go from 0 to `world_size - 1`; any other is a ValueError.",
            ),
        ),
        (
            "Lay seven cards out before three people, one by one. Which places does the second "
            "one get, and what is the distance from one to the next?",
            "A slice has a start, a stop and a step: `rows[start::step]` goes on to the end.",
            "`list(rows[rank::world_size])`; before it, a guard: `0 <= rank < world_size`.",
        ),
    ),
    *WEIGHT,
)
