"""Exercises that identify the learner's mistakes, and a workbook that grows into a library."""

from course_lib.exercises.attempts import attempt
from course_lib.exercises.check_report import Report
from course_lib.exercises.clinic import causes, clinic, diagnose
from course_lib.exercises.environment_check import check_installation
from course_lib.exercises.exercise_bank import exercises, known_mistakes
from course_lib.exercises.fallbacks import core_only, parts_of_yours, provide_fallbacks
from course_lib.exercises.guesses import guess
from course_lib.exercises.learner_export import export_mine
from course_lib.exercises.notebook_api import check, predict, score_test
from course_lib.exercises.progress import progress

__all__ = [
    "Report",
    "attempt",
    "causes",
    "check",
    "check_installation",
    "clinic",
    "core_only",
    "diagnose",
    "exercises",
    "export_mine",
    "guess",
    "known_mistakes",
    "parts_of_yours",
    "predict",
    "progress",
    "provide_fallbacks",
    "score_test",
]
