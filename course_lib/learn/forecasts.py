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
)
