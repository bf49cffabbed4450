"""The learner's side: exercises that name the mistake, and a workbook that becomes a library."""

from course_lib.exercises.attempts import attempt
from course_lib.exercises.check import exercises, known_mistakes
from course_lib.exercises.clinic import causes, clinic, diagnose
from course_lib.exercises.export import export_mine
from course_lib.exercises.installation import check_installation
from course_lib.exercises.notebook_api import check, predict, score_test
from course_lib.exercises.progress import progress
from course_lib.exercises.report import Report
from course_lib.exercises.stand_ins import parts_of_yours

__all__ = [
    "Report",
    "attempt",
    "causes",
    "check",
    "check_installation",
    "clinic",
    "diagnose",
    "exercises",
    "export_mine",
    "known_mistakes",
    "parts_of_yours",
    "predict",
    "progress",
    "score_test",
]
