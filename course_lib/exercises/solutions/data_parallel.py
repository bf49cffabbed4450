"""Right answers of chapter 22, in other styles."""

from collections import deque
from fractions import Fraction
from itertools import islice

import torch


def shard_by_places(rows, rank, world_size):
    """Look at the place of every row."""
    if rank < 0 or rank >= world_size:
        raise ValueError(f"no process has rank {rank}")
    return [row for place, row in enumerate(rows) if place % world_size == rank]


def shard_by_dealing(rows, rank: int, world_size: int) -> tuple:
    """Deal all hands, round by round, and return one."""
    if rank not in range(world_size):
        raise ValueError(rank, world_size)
    stack = deque(rows)
    hands = [[] for _ in range(world_size)]
    while stack:
        for hand in hands:
            if stack:
                hand.append(stack.popleft())
    return tuple(hands[rank])


def shard_by_tensors(rows, rank, world_size):
    """Let torch count the places."""
    if min(rank, world_size - 1 - rank) < 0:
        raise ValueError("no such rank")
    places = torch.arange(len(rows))
    return [rows[place] for place in places[places.remainder(world_size) == rank].tolist()]


def shard_by_slice(rows, rank, world_size):
    """Skip the first ones, and take what a slice gives, in the rows' own kind."""
    if world_size < 1 or not -1 < rank < world_size:
        raise ValueError(f"{rank} of {world_size}")
    return rows[slice(rank, None, world_size)] or list(islice(rows, 0))


def weight_by_average(num_tokens, all_tokens, world_size):
    """Compare with what a process has on average."""
    if world_size <= 0 or all_tokens <= 0 or num_tokens not in range(all_tokens + 1):
        raise ValueError("no share")
    average = all_tokens / world_size
    return num_tokens / average


def weight_by_fractions(num_tokens: int, all_tokens: int, world_size: int):
    """Divide what a share counts for by what the mean over processes gives it."""
    if all_tokens < 1:
        raise ValueError("no tokens")
    if world_size < 1:
        raise ValueError("no processes")
    due, given = Fraction(num_tokens, all_tokens), Fraction(1, world_size)
    if due < 0 or due > 1:
        raise ValueError("more than all")
    return float(due / given)


def weight_by_tensors(num_tokens, all_tokens, world_size):
    """Return a tensor of one number."""
    tokens = torch.tensor([num_tokens, all_tokens - num_tokens], dtype=torch.float32)
    if world_size < 1 or bool((tokens < 0).any()) or all_tokens == 0:
        raise ValueError("no share")
    return world_size * tokens[0] / tokens.sum()


ANSWERS = {
    "split_batch": (shard_by_places, shard_by_dealing, shard_by_tensors, shard_by_slice),
    "token_loss_scale": (weight_by_average, weight_by_fractions, weight_by_tensors),
}
