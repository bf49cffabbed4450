"""The learner's side: exercises that name the mistake, and a workbook that becomes a library."""

from course_lib.learn.attempts import attempt
from course_lib.learn.checks import exercises, mistakes
from course_lib.learn.mine import export_mine
from course_lib.learn.progress import progress
from course_lib.learn.report import Report
from course_lib.learn.verdicts import check, predict, score_test

__all__ = [
    "Report",
    "attempt",
    "check",
    "exercises",
    "export_mine",
    "mistakes",
    "predict",
    "progress",
    "score_test",
]
