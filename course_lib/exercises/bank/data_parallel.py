"""Exercises for chapter 27: trials and known mistakes."""

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.scalar_trials import calls

MEAN = "Averaged over the processes, factor · loss must equal the mean loss over all tokens."
SIZES = {
    "2 of 8 tokens, 2 processes": (2, 8, 2),
    "5 of 21 tokens, 3 processes": (5, 21, 3),
    "3 of 7 tokens, 4 processes": (3, 7, 4),
    "all 5 tokens, 4 processes": (5, 5, 4),
    "all tokens, one process": (9, 9, 1),
}
RATIO = "Divide the number of tokens in this process by the average number of tokens per process."
NONE = "A process may have no tokens, and then its factor is 0."

EXERCISES = (
    Exercise(
        "token_loss_scale",
        8,
        core={
            "factor": (
                calls("6 of 8 tokens, 2 processes", {"factor": (6, 8, 2)}, says=MEAN),
                calls("several sizes", SIZES, says=RATIO),
            )
        },
        hints=(
            "For the mean over all tokens, multiply each process's mean by its number of tokens, "
            "add the results, and divide by the total number of tokens. The average over the "
            "processes divides by `world_size` instead.",
            "A process with n tokens has the weight n / all_tokens in the mean over tokens, and "
            "1 / world_size in the mean over processes. The factor is the first weight "
            "divided by the second.",
            "Return `world_size * num_tokens / all_tokens`. `num_tokens` may be 0.",
        ),
        extras={
            "no tokens": (calls("a process without tokens", {"factor": (0, 12, 3)}, says=NONE),)
        },
        rejects=("(1, 2, 0)", "(0, 0, 2)", "(3, 2, 2)"),
    ),
)


# known mistakes


SCALE = "world_size * num_tokens / all_tokens"

MISTAKES = {
    "token_loss_scale": {
        "always_one: all processes have the same weight, so a token in a process with few tokens "
        "counts more [huggingface/transformers "
        "#34242, PrimeIntellect-ai/prime-rl #2562, #1957]": (SCALE, "1.0"),
        "world_size_forgotten: `world_size` is missing from the factor, even though averaging over "
        "the processes divides by it [verl-project/verl-SpeCo #29, "
        "Snowflake-AI-Research/Arctic-Platform #119]": (SCALE, "num_tokens / all_tokens"),
        "divided_by_world_size: the factor is divided by `world_size` instead of being multiplied "
        "by it": (SCALE, "num_tokens / all_tokens / world_size"),
        "world_size_alone: every factor is `world_size`, which is correct only for losses that are "
        "divided by the total number of tokens [NVIDIA-NeMo/Automodel #3830, "
        "neuralmagic/sparseml #135]": (SCALE, "float(world_size)"),
        "inverted: the factor is upside down": (SCALE, "all_tokens / (world_size * num_tokens)"),
        "whole_number: // makes the factor a whole number": (SCALE, SCALE.replace("/", "//")),
        "for_sums: `num_tokens` is not used, which is correct only if each loss is a sum over "
        "tokens": (SCALE, "world_size / all_tokens"),
    },
}
