"""Ways to share a batch out, and what only looks like one: what a learner's test is tried on."""

import random
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

Deal = Callable[[Sequence, int, int], list]


def guarded(deal: Callable[..., Any]) -> Deal:
    """Refuse ranks that no process has, and return a list."""

    @wraps(deal)
    def share(rows: Sequence, rank: int, world_size: int) -> list:
        """Deal."""
        if not 0 <= rank < world_size:
            raise ValueError(f"there is no {rank=} among {world_size=}")
        return list(deal(rows, rank, world_size))

    return share


@guarded
def dealt(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Deal as the course does, one by one."""
    return rows[rank::world_size]


@guarded
def in_pieces(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Cut into pieces of neighbours; the first ones get a row more, as numpy's array_split."""
    size, longer = divmod(len(rows), world_size)
    start = rank * size + min(rank, longer)
    return rows[start : start + size + (rank < longer)]


@guarded
def in_even_pieces(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Cut into pieces of neighbours; those with a row more lie anywhere."""
    return rows[rank * len(rows) // world_size : (rank + 1) * len(rows) // world_size]


@guarded
def to_and_fro(rows: Sequence, rank: int, world_size: int) -> list:
    """Deal from the first process to the last, and back."""
    way = [*range(world_size), *reversed(range(world_size))]
    return [row for place, row in enumerate(rows) if way[place % len(way)] == rank]


@guarded
def mixed(rows: Sequence, rank: int, world_size: int) -> list:
    """Deal from a pack that all processes have mixed in the same way."""
    return random.Random(0).sample(list(rows), len(rows))[rank::world_size]


@guarded
def everything_for_everybody(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Share nothing out."""
    return rows


@guarded
def rank_ignored(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Hand the first share to everybody."""
    return rows[::world_size]


@guarded
def remainder_dropped(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Deal as many as come out even."""
    return rows[: len(rows) - len(rows) % world_size][rank::world_size]


@guarded
def remainder_cut_off(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Cut pieces of one size, rounded down."""
    size = len(rows) // world_size
    return rows[rank * size : (rank + 1) * size]


@guarded
def filled_up_from_the_front(rows: Sequence, rank: int, world_size: int) -> list:
    """Repeat the first rows until all shares are of one size, if there are rows enough."""
    lacking = -len(rows) % world_size
    more = list(rows[:lacking]) if lacking <= len(rows) else []
    return [*rows, *more][rank::world_size]


@guarded
def few_rows_repeated(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Give a row to those who would have none, where there are fewer rows than processes."""
    return rows[rank::world_size] or rows[:1]


@guarded
def few_rows_lost(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Deal nothing where some would have none."""
    return rows[rank::world_size] if len(rows) >= world_size else rows[:0]


@guarded
def pieces_rounded_up(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Cut pieces of one size, rounded up, until no row is left."""
    size = -(-len(rows) // world_size)
    return rows[rank * size : (rank + 1) * size]


@guarded
def rest_for_the_last(rows: Sequence, rank: int, world_size: int) -> Sequence:
    """Cut pieces rounded down, and leave all that remains to the last process."""
    size = len(rows) // world_size
    return rows[rank * size : (rank + 1) * size if rank < world_size - 1 else None]


@guarded
def mixed_by_each(rows: Sequence, rank: int, world_size: int) -> list:
    """Deal from a pack that every process has mixed in its own way."""
    return random.Random(rank).sample(list(rows), len(rows))[rank::world_size]


def counted_from_one(rows: Sequence, rank: int, world_size: int) -> list:
    """Take the first process to have rank 1."""
    if not 1 <= rank <= world_size:
        raise ValueError(f"there is no {rank=} among {world_size=}")
    return list(rows[rank - 1 :: world_size])


def ranks_not_checked(rows: Sequence, rank: int, world_size: int) -> list:
    """Deal to whoever asks."""
    return list(rows[rank::world_size])


RIGHT: Sequence[Deal] = (dealt, in_pieces, in_even_pieces, to_and_fro, mixed)
WRONG: dict[str, tuple[str, Deal]] = {
    "everything_for_everybody": (
        "every process gets all rows: none is shared out",
        everything_for_everybody,
    ),
    "rank_ignored": ("every process gets the same share, and most rows are lost", rank_ignored),
    "remainder_dropped": (
        "the last rows are dropped where they cannot be shared evenly: try seven among three",
        remainder_dropped,
    ),
    "remainder_cut_off": (
        "pieces are rounded down, and the rows behind the last piece are lost: try seven among "
        "three",
        remainder_cut_off,
    ),
    "filled_up_from_the_front": (
        "shares are filled up to one size with rows that another process has, too: try seven "
        "among three",
        filled_up_from_the_front,
    ),
    "few_rows_repeated": (
        "a row is given out more than once, where there are fewer rows than processes",
        few_rows_repeated,
    ),
    "few_rows_lost": (
        "nobody gets a row, where there are fewer rows than processes",
        few_rows_lost,
    ),
    "pieces_rounded_up": (
        "pieces are rounded up, so that the last process gets two rows less than the others, or "
        "more: try nine among four",
        pieces_rounded_up,
    ),
    "rest_for_the_last": (
        "the last process gets all that remains, which may be two rows more than the others "
        "have: try eight among three",
        rest_for_the_last,
    ),
    "mixed_by_each": (
        "each process mixes the rows in its own way: some are read twice, and some never",
        mixed_by_each,
    ),
    "counted_from_one": ("ranks are counted from 1: rank 0 is the first", counted_from_one),
    "ranks_not_checked": (
        "a rank that no process has is not refused",
        ranks_not_checked,
    ),
}
