"""A learning-rate schedule that later models use."""

import math


def warmup_cosine(
    step: int, warmup_steps: int, *, steps: int, peak: float, last: float = 0.0
) -> float:
    """Raise the learning rate linearly, then lower it along half a period of a cosine.

    Paper: not mentioned.
    Returns the rate for a step: ``peak`` at step warmup_steps, and ``last`` at the final step, if
    that is a later one.
    Raises ValueError if a count is below 1, or the step is beyond the last one.
    """
    if not 1 <= step <= steps or warmup_steps < 1:
        raise ValueError(
            f"{step=} must be between 1 and {steps=}, and {warmup_steps=} must be positive"
        )
    if step <= warmup_steps:
        return peak * step / warmup_steps
    done = (step - warmup_steps) / (steps - warmup_steps)  # in (0, 1]
    left = (1 + math.cos(math.pi * done)) / 2
    return last + left * (peak - last)
