"""What the chapters from 17 on ask to predict."""

import math

from course_lib.exercises import prediction_answers
from course_lib.exercises.predictions import Prediction

FORECASTS = (
    Prediction(
        "first_loss",
        15,
        "the first loss",
        prediction_answers.first_loss,
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
        prediction_answers.gpt2_small,
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
        prediction_answers.cache_of_a_later_model,
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
    Prediction(
        "length_where_attention_rules",
        18,
        "the length",
        prediction_answers.length_where_attention_rules,
        guesses=(
            (512.0, "That is where table 1's n² · d meets its n · d², a recurrent layer."),
            (1024.0, "That is with the four projections alone; the feed-forward comes on top."),
            (2048.0, "Four projections and *two* matrices of the feed-forward: some are missing."),
            (2560.0, "Four projections: queries, keys, values and w_o; two are missing."),
            (2816.0, "A fourth projection mixes the heads, w_o."),
            (1536.0, "Scores and blend count with the 2 of multiply and add; so do the others."),
            (6144.0, "Scores *and* blend: those are two products of n · n · d."),
            (4096.0, "Scores *and* blend, four projections, *two* matrices: some are missing."),
            (24_576.0, "That is with scores and a blend of one head; there are eight."),
        ),
        minutes=6,
    ),
    Prediction(
        "memory_of_a_share",
        19,
        "GB on each device",
        prediction_answers.memory_of_a_share,
        guesses=(
            (112.0, "That is all of it; each of the 8 holds an eighth."),
            (3.5, "Those are the weights; there are gradients, and Adam's two moments."),
            (7.0, "Those are weights and gradients; Adam keeps two moments of each number."),
            (10.5, "One of four is missing: weight, gradient, and *two* moments."),
            (28.0, "Those are the weights alone, and all of them; 4 numbers are kept for each."),
            (
                56.0,
                "Those are two of four numbers, and all of them; each of the 8 holds an eighth.",
            ),
            (63.0, "That shares the moments alone; weights and gradients are shared out, too."),
            (38.5, "That shares gradients and moments; the weights are shared out, too."),
            (1.75, "A number of float32 takes 4 bytes, and 4 numbers are kept for each weight."),
            (0.875, "Those are billions of weights; each takes 4 numbers of 4 bytes."),
            (16.0, "That is what one weight takes, in bytes; there are 7 billion, shared by 8."),
            (14e9 / 2**30, "That is in GiB, of 2^30 bytes; a GB has 10^9."),
            (14e9, "Those are bytes; a GB has 10^9 of them."),
        ),
    ),
)
