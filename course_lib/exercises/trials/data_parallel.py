"""What is asked of chapter 25: what the loss of each process weighs."""

from course_lib.exercises.check import Exercise
from course_lib.exercises.scalar_checks import calls

EXERCISES = (
    Exercise(
        "token_loss_scale",
        "data_parallel",
        8,
        core={
            "factor": (
                calls(
                    "6 of 8 tokens, 2 processes",
                    {"factor": (6, 8, 2)},
                    says="The mean over processes of factor times loss has to be the mean over "
                    "all tokens.",
                ),
                calls(
                    "several sizes",
                    {
                        "2 of 8 tokens, 2 processes": (2, 8, 2),
                        "5 of 21 tokens, 3 processes": (5, 21, 3),
                        "3 of 7 tokens, 4 processes": (3, 7, 4),
                        "all of 5 tokens, 4 processes": (5, 5, 4),
                        "all tokens, one process": (9, 9, 1),
                    },
                    says="The tokens here, compared with what a process has on average.",
                ),
            )
        },
        hints=(
            "The mean over all tokens is the sum of each process's mean times its tokens, divided "
            "by all tokens. What is left of that once the processes divide by their number?",
            "A process of n tokens counts for n / all in the mean over tokens, and for "
            "1 / world_size in that over processes. The factor turns one into the other.",
            "`world_size * num_tokens / all_tokens`; the input check lets `num_tokens` be 0.",
        ),
        extras={
            "no tokens here": (
                calls(
                    "a process without tokens",
                    {"its factor": (0, 12, 3)},
                    says="A process without tokens is allowed, and its factor is 0.",
                ),
            )
        },
    ),
)
