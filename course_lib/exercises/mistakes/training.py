"""What goes wrong in chapter 10."""

from course_lib.exercises.mistakes.schedules import MISTAKES as RATES
from course_lib.exercises.mistakes.training_loss import MISTAKES as LOSS
from course_lib.exercises.mistakes.training_runs import MISTAKES as RUNS
from course_lib.exercises.mistakes.training_steps import MISTAKES as STEPS

MISTAKES = (*LOSS, *RATES, *STEPS, *RUNS)
