"""What goes wrong in chapter 19, in the order of the chapter."""

from course_lib.exercises.mistakes.rms_norm import MISTAKES as NORM
from course_lib.exercises.mistakes.swiglu import MISTAKES as GATE

MISTAKES = (*NORM, *GATE)
