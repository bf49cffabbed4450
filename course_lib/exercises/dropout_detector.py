"""Tell from the numbers alone what a dropout acted on."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from course_lib.exercises.outcomes import CLOSE

HALF = 0.5  # the share for which the guesses are made: what is kept is doubled


def what_is_dropped(
    output: Tensor, whole: Tensor, guesses: Mapping[str, Callable[[Tensor], Tensor]]
) -> str:
    """Name the guess that explains what dropout with the share ``HALF`` made of some vectors.

    Args:
        output: What came out. Shape ``(B, L, d_model)``; small, for every way to drop is tried.
        whole: What comes out when nothing is dropped.
        guesses: By name, what comes out for a mask of 0 (dropped) and 2 (kept, doubled).
    """
    if not isinstance(output, Tensor) or output.shape != whole.shape:
        return "not to be told: the shape is wrong"
    if torch.allclose(output, whole, **CLOSE):
        return "nothing"
    width = whole.size(-1)
    bits = torch.cartesian_prod(*[torch.tensor([0.0, 2.0])] * width)  # (2^width, width)
    masks = bits.view(-1, *[1] * (whole.dim() - 1), width)  # (2^width, 1, 1, width)
    for name, guess in guesses.items():
        fits = torch.isclose(guess(masks), output, **CLOSE).all(dim=-1)  # (2^width, B, L)
        if fits.any(dim=0).all():
            kept = bits[fits.int().argmax(dim=0)] > 0  # (B, L, width)
            return f"all of {name}" if not kept.any() else name
    return "something else"
