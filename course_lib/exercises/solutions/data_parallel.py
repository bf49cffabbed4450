"""Right answers of chapter 22, in other styles."""

from fractions import Fraction


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
    "token_loss_scale": (weight_by_average, weight_by_fractions, weight_plainly),
}
