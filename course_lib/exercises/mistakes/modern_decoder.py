"""What goes wrong in chapter 19, in the order of the chapter."""

from course_lib.exercises.mistakes.grouped_query_attention import MISTAKES as GROUPED
from course_lib.exercises.mistakes.rms_norm import MISTAKES as NORM
from course_lib.exercises.mistakes.rope import MISTAKES as ROTATION
from course_lib.exercises.mistakes.rotary_attention import MISTAKES as ROTARY
from course_lib.exercises.mistakes.swiglu import MISTAKES as GATE

MISTAKES = (*NORM, *GATE, *ROTATION, *ROTARY, *GROUPED)
