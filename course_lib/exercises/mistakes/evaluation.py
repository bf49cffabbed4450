"""What goes wrong in chapter 15."""

from course_lib.exercises.mistake_catalogue import known

accuracy = known("evaluation", "token_accuracy")

GUESS = "logits.argmax(dim=-1) == targets"
RATIO = "right.sum().item() / real.sum().item()"

MISTAKES = (
    accuracy(
        "padding_counted",
        "padding is counted, among the right tokens and among all",
        "keras-team/keras #10350, cs230-stanford/cs230-code-examples #13",
        (f"({GUESS}) & real", GUESS),
        (RATIO, "right.float().mean().item()"),
    ),
    accuracy(
        "padding_in_the_denominator",
        "the right tokens are divided by all positions, padding among them",
        "jsbaan/transformer-from-scratch #7",
        (RATIO, "right.sum().item() / targets.numel()"),
    ),
    accuracy(
        "mean_of_sentences",
        "every sentence has a share of its own, and the shares are averaged: count tokens first",
        "tracel-ai/burn #5577, udacity/deep-learning-v2-pytorch #74",
        (RATIO, "(right.sum(dim=1) / real.sum(dim=1)).nanmean().item()"),
    ),
)
