"""What is asked of the two schedules: the rates that the formula gives, step by step."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, value_trial
from course_lib.exercises.outcomes import describe

D_MODEL, WARMUP = 16, 5


def number(value: Any) -> float:
    """Turn every form of a number into a float.

    Raises:
        TypeError: If it is no number.
    """
    if isinstance(value, Real) or isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach() if isinstance(value, Tensor) else value)
    raise TypeError(f"a number should come out, and not {describe(value)}")


def paper(step: int, d_model: int = D_MODEL, warmup_steps: int = WARMUP) -> float:
    """Return the rate of equation (3), one side of the peak at a time."""
    peak = 1 / math.sqrt(d_model * warmup_steps)
    return peak * (step / warmup_steps if step < warmup_steps else math.sqrt(warmup_steps / step))


def told(rate_of: Callable[[int], Any], steps: Any) -> dict[str, Any]:
    """Ask for the rate of some steps."""
    return {f"rate of step {step}": number(rate_of(step)) for step in steps}


def paper_case(label: str, steps: Any, d_model: int, warmup_steps: int) -> Trial:
    """Compare some rates with the paper's."""
    sizes = d_model, warmup_steps
    return value_trial(
        label,
        lambda candidate: told(lambda step: candidate(step, *sizes), steps),
        told(lambda step: paper(step, *sizes), steps),
        stage="equality",
        says="Equation (3): 1/√d_model times the smaller of 1/√step and step / warmup^1.5.",
    )


def peak(candidate: Callable) -> dict[str, Any]:
    """Look where the rate is highest."""
    rates = {step: number(candidate(step, D_MODEL, WARMUP)) for step in range(1, 20)}
    return {"the rate peaks at step": max(rates, key=rates.get)}


def shape_of_rates(candidate: Callable) -> dict[str, Any]:
    """Look how the rate rises to its peak, and how it falls."""
    pairs = (4, 2), (9, 36)
    rates = [[number(candidate(step, D_MODEL, WARMUP)) for step in pair] for pair in pairs]
    return {
        f"step {one} has so many times the rate of step {other}": a / b if b else math.inf
        for (one, other), (a, b) in zip(pairs, rates, strict=True)
    }


EXERCISES = (
    Exercise(
        "warmup_inverse_sqrt",
        "training",
        10,
        (
            paper_case("16 numbers in a vector", range(1, 12), D_MODEL, WARMUP),
            paper_case("a wider model", (1, 2, 3, 6), 25, 2),
            paper_case("a warm-up of one step", (1, 2, 3), 4, 1),
            value_trial(
                "a look at the peak",
                peak,
                {"the rate peaks at step": WARMUP},
                says="The rate rises until step warmup_steps, and falls from there on.",
            ),
            value_trial(
                "a look at the way up and down",
                shape_of_rates,
                {
                    "step 4 has so many times the rate of step 2": 2.0,
                    "step 9 has so many times the rate of step 36": 2.0,
                },
                says="Up in a straight line from 0; then down as 1/√step.",
            ),
        ),
        (
            "Two curves, and the rate is the smaller of them: a line through 0, and 1/√step.",
            "`d_model**-0.5 * min(…, …)`; the line is `step * warmup_steps**-1.5`.",
        ),
    ),
)
