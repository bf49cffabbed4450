"""Commit to a number, then let the computer work it out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises import prediction_answers
from course_lib.exercises.report import Report


@dataclass(frozen=True)
class Prediction:
    """Ask for a number before it is computed.

    Args:
        name: Short name.
        chapter: Its number.
        asks: What the number is, in a few words.
        truth: Works it out, when it is asked for and not before.
        close: By what share a guess may be off and still be right.
        guesses: Other answers that people give, and what each would be true of.
        minutes: How long a first-time learner needs.
    """

    name: str
    chapter: int
    asks: str
    truth: Callable[[], float | Sequence[float]]
    close: float = 0.01
    guesses: tuple[tuple[float, str], ...] = ()
    minutes: int = 3
    kind: str = "predict"


def judge_prediction(task: Prediction, answer: Any) -> Report:
    """Compare a guess with what the computer works out; never raise on a guess.

    Args:
        task: What was asked.
        answer: The guess.
    """
    if answer is ... or answer is None:
        hint = "Put your answer in place of `...`, and run the cell."
        return Report(task.name, False, hint=hint, attempted=False)
    with torch.random.fork_rng(devices=[]):  # a truth may build a layer
        truth = torch.as_tensor(task.truth(), dtype=torch.float64)
    try:
        guess = torch.as_tensor(answer, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        guess = None
    if guess is None or guess.shape != truth.shape:
        kind = "one number" if truth.dim() == 0 else f"a list of {truth.numel()} numbers"
        return Report(task.name, False, hint=f"{task.asks}: {kind}, please, not {answer!r}.")
    if _near(guess, truth, task.close):
        return Report(task.name, True, detail=f"{task.asks}: {_show(truth)}")
    words = [
        words for value, words in task.guesses if _near(guess, torch.tensor(value), task.close)
    ]
    hint = words[0] if words else "Go back from the right number: how does it come about?"
    detail = f"yours: {_show(guess)}; {task.asks}: {_show(truth)}"
    return Report(task.name, False, hint=hint, detail=detail)


def _near(guess: Tensor, truth: Tensor, share: float) -> bool:
    """Say whether a guess is near enough; numbers near zero by a hundredth."""
    return torch.allclose(guess.double(), truth.double(), rtol=share, atol=0.005)


def _show(value: Tensor) -> str:
    """Write a number, or a list of them, as people do."""
    if value.dim():
        return f"[{', '.join(_show(x) for x in value)}]"
    number = round(value.item(), 4)
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


PREDICTIONS = (
    Prediction(
        "where_two_ends",
        0,
        "where “two” ends",
        prediction_answers.where_two_ends,
        guesses=(([1.5, 0.5], "That was its place among two words; now *three* pulls, too."),),
    ),
    Prediction(
        "variance_divided_by_d_k",
        1,
        "the variance of the scores",
        prediction_answers.variance_divided_by_d_k,
        close=0.05,
        guesses=(
            (1.0, "That is what dividing by √64 gives; a variance is divided by the square."),
            (1 / 8, "A variance is divided by the square of what the scores are divided by."),
            (64.0, "That is the variance before anything is divided."),
        ),
    ),
    Prediction(
        "parameters_of_sixteen_heads",
        2,
        "parameters with 16 heads",
        prediction_answers.sixteen_heads,
        guesses=(
            (2_097_152, "More heads are narrower heads: 16 share the 512 columns that 8 shared."),
            (786_432, "Three matrices make queries, keys and values; a fourth joins the heads."),
        ),
    ),
    Prediction(
        "length_of_row_499",
        3,
        "the length of row 499",
        prediction_answers.length_of_row_499,
        guesses=(
            (512**0.5, "That would be 512 ones; of a sine and its cosine, squares add up to 1."),
        ),
    ),
    Prediction(
        "largest_after_norm",
        4,
        "the largest number after the norm",
        prediction_answers.largest_after_norm,
        guesses=(
            (1.5, "That divides by n - 1; LayerNorm divides by n."),
            (0.75, "That is the distance to the mean; divide it by the standard deviation."),
            (1.0, "The norm fixes the mean and the variance, not the largest number."),
        ),
    ),
    Prediction(
        "parameters_of_feed_forward",
        5,
        "what it learns",
        prediction_answers.feed_forward,
        guesses=((30, "That is without the biases: 5 of the first layer, 3 of the second."),),
    ),
    Prediction(
        "loss_of_a_leak",
        6,
        "the lowest loss of the leaky model",
        prediction_answers.loss_of_a_leak,
        guesses=(
            (math.log(10), "That is without a leak: four guesses. Three of the four are copied."),
            (0.0, "Three answers stand in the input. Where would the fourth come from?"),
        ),
    ),
    Prediction(
        "distance_without_positions",
        7,
        "how far apart they come out",
        prediction_answers.distance_without_positions,
    ),
    Prediction(
        "parameters_more_in_decoder",
        8,
        "how many more the decoder layer has",
        prediction_answers.decoder_more,
        close=0.0005,
        guesses=(
            (1_048_576, "Those are the four matrices; there are biases, and a norm, too."),
            (1_050_624, "Those are the four matrices with biases; a third norm comes, too."),
        ),
    ),
    Prediction(
        "parameters_of_the_big_model",
        9,
        "millions of parameters",
        prediction_answers.big_model,
        close=0.03,
        guesses=(
            (
                126.2,
                "That doubles everything; a matrix that doubles in both directions is fourfold.",
            ),
            (252.3, "That makes everything fourfold; the vocabulary stays as it is."),
        ),
    ),
    Prediction(
        "loss_of_400_pieces",
        10,
        "the first loss",
        prediction_answers.untrained_loss,
        guesses=(
            (2 * math.log(200), "Twice the pieces is not twice the surprise: a logarithm adds."),
            (math.log(200) + 1, "Twice the pieces is one *bit* more, and we count in nats."),
        ),
    ),
    Prediction(
        "tokens_read_for_ten",
        11,
        "tokens read by the decoder",
        prediction_answers.tokens_read,
        guesses=(
            (10, "That is with a cache. Ours reads all that is written, again for every token."),
            (100, "That is a fixed input of ten. Ours grows: one token, two, three, …."),
            (45, "That is without the beginning of the sentence, which is read, too."),
        ),
    ),
    Prediction(
        "numbers_kept",
        12,
        "numbers kept",
        prediction_answers.numbers_kept,
        guesses=(
            (153_600, "A key *and* a value are kept for each token."),
            (122_880, "That is the target alone; the source's keys and values are kept, too."),
            (184_320, "That is the source alone; the target's keys and values are kept, too."),
            (51_200, "That is one layer; each of the six keeps its own."),
        ),
    ),
    Prediction(
        "rate_of_linking_everything",
        13,
        "the alignment error rate",
        prediction_answers.rate_of_linking_everything,
        guesses=(
            (0.75, "That is the share of links that are wrong; the known ones count, too."),
            (0.0, "No link is missed, and twelve are too many: those cost."),
            (0.8, "A shared link is in both numbers below the line: it counts twice above it."),
        ),
    ),
    Prediction(
        "share_of_padding_of_two",
        14,
        "the share of padding",
        prediction_answers.share_of_padding_of_two,
        guesses=(
            (2 / 3, "That is the share of places with a token; the rest is padding."),
            (1 / 2, "That is padding for each token, 16 to 32; the share is of *all* places."),
            (1 / 6, "That is one side's padding over all places; both sides are filled up."),
        ),
    ),
)
