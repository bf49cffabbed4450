"""The questions: predictions, tests to write, and models with a bug or heads to find."""

from typing import TypeVar

from course_lib.exercises.checking.contents import CIRCUIT, Item, look_up
from course_lib.exercises.questions.clinic_cases import CASES, Case
from course_lib.exercises.questions.mutation_score import TESTS, TestQuestion
from course_lib.exercises.questions.predictions import PREDICTIONS, Prediction

Question = Prediction | TestQuestion | Case | Item
Kind = TypeVar("Kind", Prediction, TestQuestion, Case)


def questions() -> list[Question]:
    """Return all questions in chapter order."""
    return sorted((*PREDICTIONS, *TESTS, *CASES, CIRCUIT), key=lambda question: question.chapter)


def find(name: str, kind: type[Kind]) -> Kind:
    """Return the question with a given name.

    Raises:
        ValueError: If no question of this kind has that name; the message lists similar names.
    """
    named = {question.name: question for question in questions() if isinstance(question, kind)}
    return look_up(name, named, "question", f" in {kind.__module__}")
