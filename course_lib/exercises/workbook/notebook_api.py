"""Check answers in a notebook, and save each result in the reader's progress file."""

from collections.abc import Callable
from typing import Any

from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.report import Report
from course_lib.exercises.library.progress import note
from course_lib.exercises.questions.clinic import judge_diagnosis
from course_lib.exercises.questions.mutation_score import TestQuestion, judge_test
from course_lib.exercises.questions.planted_circuits import PlantedCircuit, judge_circuit
from course_lib.exercises.questions.predictions import Prediction, judge_prediction
from course_lib.exercises.questions.question import find


def check(name: str, candidate: object) -> Report:
    """Check an answer to an exercise, and report the first thing that is wrong.

    The candidate is a function or a class; its errors are reported, but never raised.

    Raises:
        ValueError: If there is no exercise with that name.

    Example:
        >>> import torch
        >>> from course_lib.masks import causal_mask
        >>> check("causal_mask", causal_mask).passed
        True
        >>> wrong = lambda length, device=None: torch.ones(length, length).bool().triu()
        >>> check("causal_mask", wrong).mistake
        'causal_transposed'
    """
    return note(examine(name, candidate))


def predict(name: str, answer: object) -> Report:
    """Compare a guess with the computed value; ``...`` means that there is no guess yet.

    Raises:
        ValueError: If the name is unknown; ``"length_of_row_499"`` is one of the known names.
    """
    return note(judge_prediction(find(name, Prediction), answer))


def score_test(name: str, test: Callable[[Any], Any]) -> Report:
    """Score a test by the known mistakes that it finds and by its false alarms on correct answers.

    Args:
        name: The name of the question, such as ``"test_of_the_past"``.
        test: A function that takes a candidate, and raises an exception if the candidate is wrong.

    Raises:
        ValueError: If there is no question with that name.
    """
    return note(judge_test(find(name, TestQuestion), test))


def diagnose(name: str, probes: object = ..., cause: object = ..., fix: object = ...) -> Report:
    """Report on a case as far as the learner has solved it: symptom, probes, cause, fix.

    Args:
        name: The name of the case.
        probes: The names of the probes to run; each new one adds to the score.
        cause: One of ``causes()``.
        fix: A pair ``(old, new)`` of lines, or a list of such pairs; the old lines must be in the
            code that is shown once you have named the cause.

    Raises:
        ValueError: If there is no such case.
    """
    return note(judge_diagnosis(name, probes, cause, fix))


def check_circuit(
    circuit: PlantedCircuit, previous_token: object = ..., induction: object = ...
) -> Report:
    """Check which two heads of a planted circuit cause the copying, each as ``(layer, head)``.

    The previous-token head notes at every position which token is before it. The induction head
    looks for an earlier occurrence of the current token, and copies what came after it.
    """
    return note(judge_circuit(circuit, previous_token, induction))
