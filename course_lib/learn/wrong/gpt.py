"""What goes wrong in chapter 16, in the order of the chapter."""

from course_lib.learn.wrong.causal_attention import MISTAKES as ATTENTION
from course_lib.learn.wrong.continuing import MISTAKES as CONTINUING
from course_lib.learn.wrong.decay import MISTAKES as DECAY
from course_lib.learn.wrong.gpt_cache import MISTAKES as CACHE
from course_lib.learn.wrong.gpt_layer import MISTAKES as LAYER
from course_lib.learn.wrong.gpt_model import MISTAKES as MODEL
from course_lib.learn.wrong.programs import MISTAKES as PROGRAMS

MISTAKES = (*ATTENTION, *LAYER, *MODEL, *DECAY, *CACHE, *CONTINUING, *PROGRAMS)
