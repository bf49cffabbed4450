"""What is asked of chapter 16, in the order of the chapter."""

from course_lib.learn.asked.causal_attention import EXERCISES as ATTENTION
from course_lib.learn.asked.continuing import EXERCISES as CONTINUING
from course_lib.learn.asked.decay import EXERCISES as DECAY
from course_lib.learn.asked.gpt_cache import EXERCISES as CACHE
from course_lib.learn.asked.gpt_layer import EXERCISES as LAYER
from course_lib.learn.asked.gpt_model import EXERCISES as MODEL
from course_lib.learn.asked.programs import EXERCISES as PROGRAMS

EXERCISES = (*ATTENTION, *LAYER, *MODEL, *DECAY, *CACHE, *CONTINUING, *PROGRAMS)
