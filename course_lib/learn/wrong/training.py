"""What goes wrong in chapter 10."""

from course_lib.learn.wrong.training_loss import MISTAKES as LOSS
from course_lib.learn.wrong.training_rates import MISTAKES as RATES
from course_lib.learn.wrong.training_runs import MISTAKES as RUNS
from course_lib.learn.wrong.training_steps import MISTAKES as STEPS

MISTAKES = (*LOSS, *RATES, *STEPS, *RUNS)
