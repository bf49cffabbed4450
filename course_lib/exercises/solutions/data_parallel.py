"""Right answers of chapter 25, in other styles."""


def weight_by_average(num_tokens, all_tokens, world_size):
    """Compare with what a process has on average."""
    average = all_tokens / world_size
    return num_tokens / average


def weight_plainly(local_tokens, total_tokens, n_gpus):
    """Hold the core, under other names."""
    return local_tokens * n_gpus / total_tokens


ANSWERS = {"token_loss_scale": (weight_by_average, weight_plainly)}
