"""What is asked of chapter 10: the loss, the schedules, one step and many."""

from course_lib.exercises.trials.schedules import EXERCISES as RATES
from course_lib.exercises.trials.training_loss import EXERCISES as LOSS
from course_lib.exercises.trials.training_runs import EXERCISES as RUNS
from course_lib.exercises.trials.training_steps import EXERCISES as STEPS

EXERCISES = (*LOSS, *RATES, *STEPS, *RUNS)
