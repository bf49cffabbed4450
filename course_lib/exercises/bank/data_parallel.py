"""Exercises of chapter 25: trials, known mistakes and right answers."""

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import known
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
        unnamed=("world_size * num_tokens / all_tokens", "1 + num_tokens"),
    ),
)


# known mistakes

scale = known("data_parallel", "token_loss_scale")


SCALE = "world_size * num_tokens / all_tokens"

MISTAKES = (
    scale(
        "always_one",
        "all processes weigh the same: a token counts for more where there are few",
        (SCALE, "1.0"),
        seen="huggingface/transformers #34242, PrimeIntellect-ai/prime-rl #2562, #1957",
    ),
    scale(
        "world_size_forgotten",
        "the fraction of the tokens comes out: the mean over processes divides by their number "
        "again",
        (SCALE, "num_tokens / all_tokens"),
        seen="verl-project/verl-SpeCo #29, Snowflake-AI-Research/Arctic-Platform #119",
    ),
    scale(
        "divided_by_world_size",
        "it is divided by the number of processes, as their mean does already: multiply by it",
        (SCALE, "num_tokens / all_tokens / world_size"),
        seen="asked in sanderwood/bgpt #5",
    ),
    scale(
        "world_size_alone",
        "every factor is `world_size`: that is right for losses divided by all tokens already",
        (SCALE, "float(world_size)"),
        seen="NVIDIA-NeMo/Automodel #3830, neuralmagic/sparseml #135",
    ),
    scale(
        "for_sums",
        "the loss is taken to be a sum over the tokens; here it is a mean, so they count, too",
        (SCALE, "world_size / all_tokens"),
        seen="right where losses are sums: facebookresearch/fairseq #494",
    ),
)


# right answers


def weight_by_average(num_tokens, all_tokens, world_size):
    """Compare with what a process has on average."""
    average = all_tokens / world_size
    return num_tokens / average


ANSWERS = {"token_loss_scale": (weight_by_average,)}
