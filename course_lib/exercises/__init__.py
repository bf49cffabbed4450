"""Exercises that identify the learner's mistakes, and a workbook that grows into a library."""

from course_lib.exercises.checking.exercise import exercises, known_mistakes
from course_lib.exercises.checking.report import Report
from course_lib.exercises.library.attempts import attempt
from course_lib.exercises.library.export import export_mine
from course_lib.exercises.library.fallbacks import core_only, parts_of_yours, provide_fallbacks
from course_lib.exercises.library.progress import progress
from course_lib.exercises.questions.clinic import causes, clinic
from course_lib.exercises.workbook.environment_check import check_installation
from course_lib.exercises.workbook.guesses import guess
from course_lib.exercises.workbook.notebook_api import check, diagnose, predict, score_test

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
