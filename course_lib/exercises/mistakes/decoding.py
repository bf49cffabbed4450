"""What goes wrong in chapter 11."""

from course_lib.exercises.mistakes.greedy_decode import MISTAKES as GREEDY
from course_lib.exercises.mistakes.sampling import MISTAKES as SAMPLING

MISTAKES = (*GREEDY, *SAMPLING)
