"""Exercises for chapter 15: trials and known mistakes."""

from collections.abc import Callable

import torch

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.trial import B, T, Trial, as_trial, normal

ACCURACY = (
    "Divide the number of correct predictions by the number of real tokens. Count both over all "
    "rows, and leave out padding."
)


def tokens(label: str, pad_id: int, *shape: int, lengths: tuple[int, ...]) -> Trial:
    """Compare the accuracy for logits of this shape; ``lengths`` gives each row's real length."""
    logits = normal(label, *shape)
    best = logits.argmax(dim=-1)
    targets = torch.where(normal(label + "!", *shape[:2]) > 0, best, (best + 1) % shape[2])
    targets = torch.where(targets == pad_id, (targets + 1) % shape[2], targets)
    for row, real in enumerate(lengths):
        targets[row, real:] = pad_id
        logits[row, real : real + 1, pad_id] = 9.0  # the model predicts some of the padding

    @as_trial(label, ACCURACY, "equality")
    def measure(candidate: Callable) -> dict[str, float]:
        return {"accuracy": float(candidate(logits.clone(), targets.clone(), pad_id))}

    return measure


EXERCISES = (
    Exercise(
        "token_accuracy",
        10,
        core={
            "accuracy": (
                tokens("rows of 9, 3 and 2 real tokens", 3, 3, 9, 6, lengths=(9, 3, 2)),
                tokens("pad_id=0 and rows without padding", 0, B, T, 6, lengths=(4, 4)),
            ),
            "padding": (
                tokens("rows of 5, 2, 1, 1 and 4 real tokens", 0, 5, 5, 5, lengths=(5, 2, 1, 1, 4)),
            ),
        },
        hints=(
            "First build a mask that is True where the target is a real token.",
            "`argmax(dim=-1)` gives the predicted token at every position. Count the positions "
            "where the prediction is correct *and* the target is real, and divide by the number "
            "of real targets.",
        ),
        rejects=(
            "(torch.ones(1, 2, 4), torch.tensor([[1, 2, 3]]), 0)",
            "(torch.ones(1, 2, 4) * math.nan, torch.tensor([[1, 2]]), 0)",
            "(torch.ones(1, 2, 4), torch.tensor([[0, 0]]), 0)",
        ),
    ),
)


# known mistakes


GUESS = "logits.argmax(dim=-1) == targets"
RATIO = "right.sum().item() / real.sum().item()"

MISTAKES = {
    "token_accuracy": {
        "padding_counted: padding is counted, both among the correct tokens and in the total "
        "[keras-team/keras #10350, cs230-stanford/cs230-code-examples #13]": (
            (f"({GUESS}) & real", GUESS),
            (RATIO, "right.float().mean().item()"),
        ),
        "padding_in_the_denominator: the number of correct tokens is divided by the total number "
        "of positions, including padding "
        "[jsbaan/transformer-from-scratch #7]": (RATIO, "right.sum().item() / targets.numel()"),
        "mean_of_sentences: the accuracy is averaged over the sentences, so a token in a short "
        "sentence counts more [tracel-ai/burn #5577, udacity/deep-learning-v2-pytorch #74]": (
            RATIO,
            "(right.sum(dim=1) / real.sum(dim=1)).nanmean().item()",
        ),
        "whole_number: // makes the accuracy a whole number": (RATIO, RATIO.replace("/", "//")),
        "whole_sentences: a sentence counts only if all of its tokens are right": (
            RATIO,
            "(right | ~real).all(dim=1).float().mean().item()",
        ),
        "shifted_again: the targets are shifted here, but position t already has the token after "
        "t": (
            f"({GUESS}) & real",
            "(logits.argmax(dim=-1)[:, :-1] == targets[:, 1:]) & real[:, 1:]",
        ),
    },
}
