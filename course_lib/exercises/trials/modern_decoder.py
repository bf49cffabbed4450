"""What is asked of chapter 19, in the order of the chapter."""

from course_lib.exercises.trials.grouped_query_attention import EXERCISES as GROUPED
from course_lib.exercises.trials.rms_norm import EXERCISES as NORM
from course_lib.exercises.trials.rope import EXERCISES as ROTATION
from course_lib.exercises.trials.rotary_attention import EXERCISES as ROTARY
from course_lib.exercises.trials.swiglu import EXERCISES as GATE

EXERCISES = (*NORM, *GATE, *ROTATION, *ROTARY, *GROUPED)
