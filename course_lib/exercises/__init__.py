"""Exercises that identify the learner's mistakes, and a workbook that grows into a library.

A name is imported when it is first used, because most of these modules import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.exercises.checking.exercise import exercises, known_mistakes
    from course_lib.exercises.checking.report import Report
    from course_lib.exercises.library.attempts import attempt
    from course_lib.exercises.library.export import export_mine
    from course_lib.exercises.library.fallbacks import core_only, parts_of_yours, provide_fallbacks
    from course_lib.exercises.library.progress import progress
    from course_lib.exercises.questions.clinic import causes, clinic
    from course_lib.exercises.questions.planted_circuits import planted_circuit
    from course_lib.exercises.workbook.environment_check import check_installation
    from course_lib.exercises.workbook.guesses import guess
    from course_lib.exercises.workbook.notebook_api import (
        check,
        check_circuit,
        diagnose,
        predict,
        score_test,
    )

HOMES = {
    "checking.exercise": ("exercises", "known_mistakes"),
    "checking.report": ("Report",),
    "library.attempts": ("attempt",),
    "library.export": ("export_mine",),
    "library.fallbacks": ("core_only", "parts_of_yours", "provide_fallbacks"),
    "library.progress": ("progress",),
    "questions.clinic": ("causes", "clinic"),
    "questions.planted_circuits": ("planted_circuit",),
    "workbook.environment_check": ("check_installation",),
    "workbook.guesses": ("guess",),
    "workbook.notebook_api": ("check", "check_circuit", "diagnose", "predict", "score_test"),
}
__all__ = [
    "Report",
    "attempt",
    "causes",
    "check",
    "check_circuit",
    "check_installation",
    "clinic",
    "core_only",
    "diagnose",
    "exercises",
    "export_mine",
    "guess",
    "known_mistakes",
    "parts_of_yours",
    "planted_circuit",
    "predict",
    "progress",
    "provide_fallbacks",
    "score_test",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    for module, names in HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
