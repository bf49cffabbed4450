"""What is asked of chapter 18, in the order of the chapter."""

from course_lib.exercises.trials.causal_attention import EXERCISES as ATTENTION
from course_lib.exercises.trials.gpt_layer import EXERCISES as LAYER
from course_lib.exercises.trials.gpt_model import EXERCISES as MODEL
from course_lib.exercises.trials.gpt_sampling import EXERCISES as CONTINUING
from course_lib.exercises.trials.param_groups import EXERCISES as DECAY

EXERCISES = (*ATTENTION, *LAYER, *MODEL, *DECAY, *CONTINUING)
