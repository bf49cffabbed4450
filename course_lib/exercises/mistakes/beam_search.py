"""What goes wrong in the length penalty."""

from course_lib.exercises.mistake_catalogue import known

penalty = known("beam_search", "length_penalty")

FORMULA = "((5 + lengths) / 6) ** alpha"

MISTAKES = (
    penalty(
        "exponent_negative",
        "the exponent has the wrong sign: who divides by this favours short sentences even more",
        "student code: a penalty that is multiplied elsewhere",
        ("** alpha", "** -alpha"),
    ),
    penalty(
        "alpha_multiplied",
        "alpha is a factor: it is an exponent, and 0 must give 1",
        "student code",
        ("** alpha", "* alpha"),
    ),
    penalty(
        "length_alone",
        "the length itself is raised to alpha, without the five and the six",
        "huggingface/transformers divides by length ** length_penalty",
        (FORMULA, "lengths**alpha"),
    ),
    penalty(
        "only_the_top_raised",
        "only the numerator is raised to alpha: (5 + 1) is divided by 6 in vain",
        "student code: a bracket",
        (FORMULA, "(5 + lengths) ** alpha / 6"),
    ),
    penalty(
        "five_forgotten",
        "the five is forgotten, and a single token is divided by less than 1",
        "student code",
        ("(5 + lengths)", "lengths"),
    ),
    penalty(
        "logarithm_returned",
        "the logarithm of the penalty comes out: the penalty itself is divided by",
        "student code: everything else is a logarithm",
        (FORMULA, "alpha * ((5 + lengths) / 6).log()"),
    ),
)
