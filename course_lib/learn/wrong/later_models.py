"""What goes wrong in chapter 17, in the order of the chapter."""

from course_lib.learn.wrong.grouped import MISTAKES as GROUPED
from course_lib.learn.wrong.rms_norm import MISTAKES as NORM
from course_lib.learn.wrong.rotary_attention import MISTAKES as ROTARY
from course_lib.learn.wrong.rotation import MISTAKES as ROTATION
from course_lib.learn.wrong.swiglu import MISTAKES as GATE

MISTAKES = (*NORM, *GATE, *ROTATION, *ROTARY, *GROUPED)
