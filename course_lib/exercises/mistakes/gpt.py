"""What goes wrong in chapter 18, in the order of the chapter."""

from course_lib.exercises.mistakes.causal_attention import MISTAKES as ATTENTION
from course_lib.exercises.mistakes.gpt_layer import MISTAKES as LAYER
from course_lib.exercises.mistakes.gpt_model import MISTAKES as MODEL
from course_lib.exercises.mistakes.gpt_sampling import MISTAKES as CONTINUING
from course_lib.exercises.mistakes.param_groups import MISTAKES as DECAY

MISTAKES = (*ATTENTION, *LAYER, *MODEL, *DECAY, *CONTINUING)
