"""What is asked of chapter 24: the operations of an attention."""

from collections.abc import Callable

from course_lib.exercises.check import Exercise
from course_lib.exercises.scalar_checks import calls, number
from course_lib.exercises.trial import D_K, D_V, H, S, T, looks

D_MODEL = H * D_K


@looks(
    "T and S the other way round",
    "A position of the target needs a query and an output, one of the source a key and a value, "
    "and both take as much: T and S can change places.",
)
def exchanged(candidate: Callable) -> dict[str, bool]:
    """Let T and S change places."""
    counts = [number(candidate(D_MODEL, H, *lengths)) for lengths in ((4, 9), (9, 4))]
    return {"T and S can change places": counts[0] == counts[1]}


EXERCISES = (
    Exercise(
        "attention_flops",
        "flops",
        15,
        core={
            "one attention": (
                calls("sizes that differ", {"the count": (D_MODEL, H, T, S)}, number),
                exchanged,
                calls(
                    "several sizes",
                    {
                        "a source shorter than the target": (16, 4, 9, 2),
                        "one head": (12, 1, 3, 4),
                        "one position of the target": (12, 2, 1, 30),
                        "the base model": (512, 8, 25, 25),
                    },
                    number,
                    says="Four projections, the scores and the weighted sum: six products, and "
                    "each takes 2 · a · b · c, for heads that split `d_model`.",
                ),
            )
        },
        hints=(
            "Write down the shapes of all six products of one head first. Which of them have T "
            "rows, and which S?",
            "Queries `(T, d_model) @ (d_model, d_k)` and the output projection `(T, d_v) @ (d_v, "
            "d_model)` go by T, keys and values by S; scores `(T, d_k) @ (d_k, S)` and weighted "
            "sum `(T, S) @ (S, d_v)` by both.",
            "Add the six a · b · c, and multiply the sum by 2 and by `num_heads`. Without widths "
            "of their own, `head_width(d_model, num_heads)` is both.",
        ),
        extras={
            "d_k, d_v": tuple(
                calls(
                    label,
                    {"the count": sizes},
                    number,
                    options=widths,
                    says="Queries and keys are `d_k` wide, values `d_v`, where these are given.",
                )
                for label, sizes, widths in (
                    ("d_k=8, d_v=7", (D_MODEL, H, T, S), dict(d_k=8, d_v=D_V)),
                    ("d_k=8 alone", (D_MODEL, H, T, S), dict(d_k=8)),
                    ("d_v=7 alone", (D_MODEL, H, T, S), dict(d_v=D_V)),
                    ("d_model=10 and three heads", (10, 3, T, S), dict(d_k=D_K, d_v=D_V)),
                )
            )
        },
    ),
)
