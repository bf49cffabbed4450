"""The tasks that are not exercises: predictions, tests to write, and clinic cases."""

from typing import TypeVar

from course_lib.exercises.checking.exercise import look_up
from course_lib.exercises.questions.clinic_cases import CASES, Case
from course_lib.exercises.questions.mutation_score import TESTS, TestTask
from course_lib.exercises.questions.predictions import PREDICTIONS, Prediction

Task = Prediction | TestTask | Case
Kind = TypeVar("Kind", Prediction, TestTask, Case)


def tasks() -> list[Task]:
    """Return all tasks in chapter order."""
    return sorted((*PREDICTIONS, *TESTS, *CASES), key=lambda task: task.chapter)


def find(name: str, kind: type[Kind]) -> Kind:
    """Return the task with a given name.

    Raises:
        ValueError: If no task of this kind has that name; the message lists similar names.
    """
    named = {task.name: task for task in tasks() if isinstance(task, kind)}
    return look_up(name, named, "task", f" in {kind.__module__}")
