"""Learning-rate schedules for short training runs (§5.3)."""

import math

from course_lib.training import warmup_inverse_sqrt


def warmup_cooldown(
    step: int, d_model: int, warmup_steps: int, *, steps: int, scale: float, cooldown_steps: int
) -> float:
    """Adapt the paper's schedule to a short training run of a small model.

    Paper: §5.3, equation (3).
    Returns scale times the paper's rate. Over the last cooldown_steps steps, it is multiplied by a
    linearly decreasing factor, which would reach zero one step after the last.
    Raises ValueError if a count is below 1, or the step is beyond the last one.
    Differs: the rate is scaled, and lowered toward zero at the end so that the weights settle.
    """
    if not 1 <= step <= steps or cooldown_steps < 1:
        raise ValueError(
            f"{step=} must be between 1 and {steps=}, and {cooldown_steps=} must be positive"
        )
    cooling = min(1.0, (steps + 1 - step) / cooldown_steps)
    return scale * cooling * warmup_inverse_sqrt(step, d_model, warmup_steps)


def warmup_cosine(
    step: int, warmup_steps: int, *, steps: int, peak: float, last: float = 0.0
) -> float:
    """Raise the learning rate linearly, then lower it along half a period of a cosine.

    Paper: not mentioned.
    Returns the rate for a step: ``peak`` at step warmup_steps, and ``last`` at the final step.
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
