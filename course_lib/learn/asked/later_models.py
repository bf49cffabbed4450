"""What is asked of chapter 17, in the order of the chapter."""

from course_lib.learn.asked.grouped import EXERCISES as GROUPED
from course_lib.learn.asked.rms_norm import EXERCISES as NORM
from course_lib.learn.asked.rotary_attention import EXERCISES as ROTARY
from course_lib.learn.asked.rotation import EXERCISES as ROTATION
from course_lib.learn.asked.swiglu import EXERCISES as GATE

EXERCISES = (*NORM, *GATE, *ROTATION, *ROTARY, *GROUPED)
