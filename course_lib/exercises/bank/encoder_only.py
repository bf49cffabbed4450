"""Exercises of chapter 20: trials, known mistakes and right answers."""

from torch import Tensor

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.trial import function_trial, normal

EXERCISES = (
    Exercise(
        "encoder_only_example",
        "encoder_only",
        10,  # minutes
        core={
            "direction": (
                function_trial("a batch of vectors", {"x": normal("x", 2, 3, 5)}, ("output",)),
            ),
        },
        hints=(
            "Compute one length for each vector, and keep its axis so that it broadcasts.",
            "`x.norm(dim=-1, keepdim=True)` has the shape (..., 1). Divide `x` by it.",
        ),
        unnamed=("x / lengths", "x / (lengths + 1)"),
    ),
)


# known mistakes

example = known("encoder_only", "encoder_only_example")

MISTAKES = (
    example(
        "squared_length: the vectors are divided by the square of their length",
        ("x / lengths", "x / lengths**2"),
    ),
    example(
        "columns_divided: every column is divided by its length, instead of every vector",
        ("dim=-1", "dim=-2"),
    ),
)


# right answers


def by_squares(x: Tensor) -> Tensor:
    """Take the root of the sum of the squares."""
    return x / (x * x).sum(-1, keepdim=True).sqrt()


ANSWERS = {"encoder_only_example": (by_squares,)}
