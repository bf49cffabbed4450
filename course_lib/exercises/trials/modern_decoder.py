"""What is asked of chapter 19, in the order of the chapter."""

from course_lib.exercises.trials.rms_norm import EXERCISES as NORM
from course_lib.exercises.trials.swiglu import EXERCISES as GATE

EXERCISES = (*NORM, *GATE)
