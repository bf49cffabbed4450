"""Right answers of chapter 22, in other styles."""

from collections import deque
from fractions import Fraction

import torch


def shard_by_indices(rows, rank, world_size):
    """Look at the index of every row."""
    if rank < 0 or rank >= world_size:
        raise ValueError(f"no process has rank {rank}")
    return [row for index, row in enumerate(rows) if index % world_size == rank]


def shard_by_dealing(rows, rank: int, world_size: int) -> list:
    """Deal all hands, round by round, and return one."""
    if rank not in range(world_size):
        raise ValueError(rank, world_size)
    stack = deque(rows)
    hands = [[] for _ in range(world_size)]
    while stack:
        for hand in hands:
            if stack:
                hand.append(stack.popleft())
    return hands[rank]


def shard_by_tensors(rows, rank, world_size):
    """Let torch count the indices."""
    if min(rank, world_size - 1 - rank) < 0:
        raise ValueError("no such rank")
    indices = torch.arange(len(rows))
    return [rows[index] for index in indices[indices.remainder(world_size) == rank].tolist()]


def shard_plainly(dataset, rank, num_replicas):
    """Hold the core, under the names of torch's DistributedSampler."""
    return list(dataset[rank::num_replicas])


def weight_by_average(num_tokens, all_tokens, world_size):
    """Compare with what a process has on average."""
    if world_size <= 0 or all_tokens <= 0 or num_tokens not in range(all_tokens + 1):
        raise ValueError("no part")
    average = all_tokens / world_size
    return num_tokens / average


def weight_by_fractions(num_tokens: int, all_tokens: int, world_size: int):
    """Divide what a process counts for by what the mean over processes gives it."""
    if all_tokens < 1:
        raise ValueError("no tokens")
    if world_size < 1:
        raise ValueError("no processes")
    due, given = Fraction(num_tokens, all_tokens), Fraction(1, world_size)
    if due < 0 or due > 1:
        raise ValueError("more than all")
    return float(due / given)


def weight_plainly(local_tokens, total_tokens, n_gpus):
    """Hold the core, under other names."""
    return local_tokens * n_gpus / total_tokens


ANSWERS = {
    "split_batch": (shard_by_indices, shard_by_dealing, shard_by_tensors, shard_plainly),
    "token_loss_scale": (weight_by_average, weight_by_fractions, weight_plainly),
}
