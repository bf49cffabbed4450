"""What the chapters that continue a text ask to predict."""

import math

from course_lib.learn import truths
from course_lib.learn.predictions import Prediction

FORECASTS = (
    Prediction(
        "first_loss",
        15,
        "the first loss",
        truths.first_loss,
        guesses=(
            (math.log2(65), "That is in bits, which count in twos; nats are the natural ln."),
            (math.log10(65), "That is in digits, which count in tens; nats are the natural ln."),
            (1 / 65, "That is the probability of each; the loss is -ln of it."),
            (-math.log(65), "A logarithm of a share is below 0; the loss is *minus* that."),
            (65.0, "That is e to the power of the loss, the perplexity."),
            (math.log(96), "That is for the 96 characters of Python's library; here are 65."),
            (1.0, "That would be a share of 1/e, about one in three; it has one in 65."),
            (0.0, "A loss of 0 is certainty; logits of 0 mean that all are alike."),
        ),
    ),
    Prediction(
        "parameters_of_gpt2",
        16,
        "parameters of GPT-2 small",
        truths.gpt2_small,
        close=0.0004,
        guesses=(
            (163_037_184, "The output shares the embedding's matrix: it counts once."),
            (123_653_376, "The 1,024 positions are learned, too."),
            (124_337_664, "The biases are missing, of linear layers and of norms."),
            (85_056_000, "Those are the layers and the last norm; the two tables come on top."),
            (81_944_832, "The feed-forward widens by 4."),
            (117_352_704, "A fourth matrix mixes the heads, w_o."),
            (46_473_216, "That is one layer; there are twelve."),
            (117_000_000, "So says the paper; its authors have corrected it since."),
        ),
        minutes=6,
    ),
    Prediction(
        "cache_of_a_later_model",
        17,
        "GiB of the cache",
        truths.cache_of_a_later_model,
        guesses=(
            (4.0, "That is with a set for each of the 32 heads; here they share 8."),
            (0.5, "That is half of it: keys *and* values are kept, and a number takes 2 bytes."),
            (0.25, "That is a quarter: keys *and* values are kept, and a number takes 2 bytes."),
            (2.0, "That is with 4 bytes a number; here each takes 2."),
            (3.0, "Queries are not kept: each is used once, when its token is new."),
            (0.125, "That is with one set of keys and values; here are 8."),
            (1 / 32, "That is one layer; there are 32."),
            (1.073741824, "That is in GB, of 10^9 bytes; a GiB has 2^30."),
            (2.0**30, "Those are bytes; a GiB has 2^30 of them."),
            (1024.0, "Those are MiB; a GiB has 1,024 of them."),
            (32.0, "That is 32 times too much: the heads that ask keep nothing."),
        ),
    ),
)
