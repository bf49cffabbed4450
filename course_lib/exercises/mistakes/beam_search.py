"""What goes wrong in chapter 13."""

from course_lib.exercises.mistake_catalogue import known

penalty = known("beam_search", "length_penalty")

FORMULA = "((5 + lengths) / 6) ** alpha"

MISTAKES = (
    penalty(
        "exponent_negative",
        "the exponent has the wrong sign: dividing by this favours short sentences even more",
        "a penalty that is multiplied elsewhere, as in many beam searches",
        ("** alpha", "** -alpha"),
    ),
    penalty(
        "alpha_multiplied",
        "alpha is a factor: it is an exponent, and 0 must give 1",
        "alpha read as a weight of the penalty",
        ("** alpha", "* alpha"),
    ),
    penalty(
        "length_alone",
        "the length itself is raised to alpha, without the five and the six",
        "huggingface/transformers divides by length ** length_penalty",
        (FORMULA, "lengths**alpha"),
    ),
    penalty(
        "five_forgotten",
        "the five is forgotten, and a single token is divided by less than 1",
        "the 5 of equation (14) forgotten, the 6 kept",
        ("(5 + lengths)", "lengths"),
    ),
)
