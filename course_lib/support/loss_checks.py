"""Input checks of the losses that train an assistant."""

from torch import Tensor


def check_same_shapes(**tensors: Tensor) -> None:
    """Raise ValueError if the shapes differ, because tensors of other shapes would broadcast."""
    if len({x.shape for x in tensors.values()}) > 1:
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in tensors.items())
        raise ValueError(f"these must have the same shape, got {shapes}")


def check_groups(rewards: Tensor) -> None:
    """Raise ValueError unless rewards (Q, G) are floating-point numbers, with G at least 2."""
    if rewards.dim() != 2 or rewards.size(1) < 2 or not rewards.is_floating_point():
        raise ValueError(
            "rewards must be floating-point numbers (use .float()) of shape (Q, G), for at least "
            f"G = 2 answers to compare, got {rewards.dtype} of shape {tuple(rewards.shape)}"
        )
