"""What is asked of chapter 22: a batch split among processes, and what each part's loss weighs."""

from collections.abc import Callable, Sequence
from typing import Any

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trial import value_trial
from course_lib.exercises.value_trials import calls, number, refusals

SIZES = ((7, 3), (8, 2), (9, 4), (10, 3), (4, 1), (11, 8))  # rows, processes
FEW = ((2, 5), (0, 2))
OTHERS = {  # rows of other kinds, and among how many they are split
    "letters of a text": ("abcdefg", 3),
    "a range": (range(5), 2),
    "lists of ids": ([[7, 8], [9], [4, 5, 6], [3], [2, 2]], 2),
    "rows that are equal": ([5, 5, 3, 5, 3, 3, 3, 5], 3),
}
FIVE = [10, 11, 12, 13, 14]
LOSSES = {  # tokens of each process, and its mean loss
    "three processes": ((6, 1, 5), (2.0, 5.0, 3.0)),
    "as many tokens each": ((4, 4), (1.0, 3.0)),
}


def rows_of(answer: Any, *_: Any) -> str:
    """Write a list out, and what is none with its type."""
    return str(answer) if isinstance(answer, list) else f"no list, but {describe(answer)}"


def split(rows: Sequence, world_size: int) -> dict[str, tuple]:
    """Let every process ask for its part."""
    return {f"rank {rank} of {world_size}": (rows, rank, world_size) for rank in range(world_size)}


def numbered(*sizes: tuple[int, int]) -> dict[str, tuple]:
    """Make numbered rows, and let every process ask."""
    return {
        f"{count} rows, {name}": given
        for count, world_size in sizes
        for name, given in split(list(range(10, 10 + count)), world_size).items()
    }


def together(candidate: Callable) -> dict[str, str]:
    """Put the parts of all processes together again."""
    parts = [candidate(list(range(7)), rank, 3) for rank in range(3)]
    return {"rows that some process gets": str(sorted(sum(map(list, parts), [])))}


def means(candidate: Callable) -> dict[str, float]:
    """Take the mean over processes of scaled losses."""
    found = {}
    for name, (tokens, losses) in LOSSES.items():
        scales = [number(candidate(n, sum(tokens), len(tokens))) for n in tokens]
        pairs = zip(scales, losses, strict=True)
        found[f"the mean, {name}"] = sum(s * loss for s, loss in pairs) / len(tokens)
    return found


EXERCISES = (
    Exercise(
        "split_batch",
        "data_parallel",
        8,
        core={
            "rows": (
                calls("seven rows, three processes", numbered((7, 3)), rows_of),
                value_trial(
                    "the parts of all processes",
                    together,
                    says="Every row is for one process, also where they cannot be split evenly.",
                ),
                calls(
                    "numbered rows",
                    numbered(*SIZES),
                    rows_of,
                    says="Rows are dealt like cards: every `world_size`-th row, from row `rank` "
                    "on, so that no one gets all the long ones of a sorted batch.",
                ),
            ),
            "rows of any kind": (
                calls(
                    "rows of other kinds",
                    {
                        f"{name}, {which}": given
                        for name, case in OTHERS.items()
                        for which, given in split(*case).items()
                    },
                    rows_of,
                    says="A list should come out, of rows dealt by index, whatever they hold.",
                ),
            ),
        },
        hints=(
            "Lay seven cards out before three people, one by one. Which ones does the second "
            "person get, and what is the distance from one to the next?",
            "A slice has a start, a stop and a step: `rows[start::step]` goes on to the end.",
            "`list(rows[rank::world_size])`; before it, an input check: `0 <= rank < world_size`.",
        ),
        extras={
            "few rows": (
                calls(
                    "fewer rows than processes",
                    numbered(*FEW),
                    rows_of,
                    says="Where there are fewer rows than processes, some get an empty list.",
                ),
            ),
            "bad rank": (
                refusals(
                    "ranks that no process has",
                    {
                        "rank 3 of 3": (FIVE, 3, 3),
                        "rank -1 of 3": (FIVE, -1, 3),
                        "rank 0 of no processes": (FIVE, 0, 0),
                    },
                    "Ranks go from 0 to `world_size - 1`; any other is a ValueError.",
                ),
            ),
        },
    ),
    Exercise(
        "token_loss_scale",
        "data_parallel",
        8,
        core={
            "factor": (
                calls("6 of 8 tokens, 2 processes", {"factor": (6, 8, 2)}),
                calls(
                    "several sizes",
                    {
                        "2 of 8 tokens, 2 processes": (2, 8, 2),
                        "5 of 21 tokens, 3 processes": (5, 21, 3),
                        "3 of 7 tokens, 4 processes": (3, 7, 4),
                        "all of 5 tokens, 4 processes": (5, 5, 4),
                        "all tokens, one process": (9, 9, 1),
                    },
                    says="The tokens here, compared with what a process has on average.",
                ),
            ),
            "mean": (
                value_trial(
                    "losses of several processes",
                    means,
                    says="The mean over processes of factor times loss has to be the mean over "
                    "all tokens.",
                ),
            ),
        },
        hints=(
            "The mean over all tokens is the sum of each process's mean times its tokens, divided "
            "by all tokens. What is left of that once the processes divide by their number?",
            "A process of n tokens counts for n / all in the mean over tokens, and for "
            "1 / world_size in that over processes. The factor turns one into the other.",
            "`world_size * num_tokens / all_tokens`; the input check lets `num_tokens` be 0.",
        ),
        extras={
            "no tokens here": (
                calls(
                    "a process without tokens",
                    {"its factor": (0, 12, 3)},
                    says="A process without tokens is allowed, and its factor is 0.",
                ),
            ),
            "bad counts": (
                refusals(
                    "counts that cannot be",
                    {
                        "no process": (2, 4, 0),
                        "no token in all": (0, 0, 2),
                        "more tokens here than in all": (5, 4, 2),
                        "-1 tokens here": (-1, 4, 2),
                    },
                    "At least one process and one token, and no more tokens here than in all, or "
                    "a ValueError.",
                ),
            ),
        },
    ),
)
