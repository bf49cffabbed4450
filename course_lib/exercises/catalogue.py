"""What is asked beside building: predictions, and tests to write."""

from course_lib.exercises.check import look_up
from course_lib.exercises.mutation_score import TESTS, TestTask
from course_lib.exercises.predictions import PREDICTIONS, Prediction


def tasks() -> list[Prediction | TestTask]:
    """Return all of them, in the order of the chapters."""
    return sorted((*PREDICTIONS, *TESTS), key=lambda task: task.chapter)


def find(name: str, kind: type) -> Prediction | TestTask:
    """Return a task by its name.

    Raises:
        ValueError: If there is none of that name and kind; the message says which are near.
    """
    named = {task.name: task for task in tasks() if isinstance(task, kind)}
    return look_up(name, named, "task")
