"""What is asked of chapter 11: greedy decoding, and sampling."""

from course_lib.exercises.trials.greedy_decode import EXERCISES as GREEDY
from course_lib.exercises.trials.sampling import EXERCISES as SAMPLING

EXERCISES = (*GREEDY, *SAMPLING)
