"""What goes wrong in chapter 25."""

from course_lib.exercises.mistake_catalogue import known

scale = known("data_parallel", "token_loss_scale")


SCALE = "world_size * num_tokens / all_tokens"

MISTAKES = (
    scale(
        "always_one",
        "all processes weigh the same: a token counts for more where there are few",
        "huggingface/transformers #34242, PrimeIntellect-ai/prime-rl #2562, #1957",
        (SCALE, "1.0"),
    ),
    scale(
        "world_size_forgotten",
        "the fraction of the tokens comes out: the mean over processes divides by their number "
        "again",
        "verl-project/verl-SpeCo #29, Snowflake-AI-Research/Arctic-Platform #119",
        (SCALE, "num_tokens / all_tokens"),
    ),
    scale(
        "divided_by_world_size",
        "it is divided by the number of processes, as their mean does already: multiply by it",
        "asked in sanderwood/bgpt #5",
        (SCALE, "num_tokens / all_tokens / world_size"),
    ),
    scale(
        "world_size_alone",
        "every factor is `world_size`: that is right for losses divided by all tokens already",
        "NVIDIA-NeMo/Automodel #3830, neuralmagic/sparseml #135",
        (SCALE, "float(world_size)"),
    ),
    scale(
        "for_sums",
        "the loss is taken to be a sum over the tokens; here it is a mean, so they count, too",
        "right where losses are sums: facebookresearch/fairseq #494",
        (SCALE, "world_size / all_tokens"),
    ),
)
