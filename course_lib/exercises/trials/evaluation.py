"""What is asked of chapter 14."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.scalar_checks import fraction
from course_lib.exercises.trial import B, S, T, Trial, normal, value_trial

MAP = normal("a map", T, S).mul(2).softmax(dim=-1)
HALVES = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
ACCURACY = "Right tokens over real tokens, of all rows together; padding is in neither count."
LINK = "A pair (target, source) of positions, from 0, for each weight that reaches the threshold."


def tokens(label: str, pad_id: int, *shape: int, lengths: tuple[int, ...]) -> Trial:
    """Compare the share for logits of some shape, and targets with so many real tokens."""
    logits = normal(label, *shape)
    best = logits.argmax(dim=-1)
    targets = torch.where(normal(label + "!", *shape[:2]) > 0, best, (best + 1) % shape[2])
    targets = torch.where(targets == pad_id, (targets + 1) % shape[2], targets)
    for row, real in enumerate(lengths):
        targets[row, real:] = pad_id
        logits[row, real : real + 1, pad_id] = 9.0  # some padding is guessed, some is not

    def act(candidate: Callable) -> dict[str, float]:
        """Call it on copies."""
        return {"the share": fraction(candidate(logits.clone(), targets.clone(), pad_id))}

    return value_trial(label, act, kind="equality", says=ACCURACY)


def linked(label: str, weights: Tensor, threshold: float) -> Trial:
    """Compare the links of a map."""

    def act(candidate: Callable) -> dict[str, Any]:
        """Call it on a copy, and write the links down in order."""
        links = candidate(weights.clone(), threshold)
        whole = all(type(place) is int for pair in links for place in pair)
        return {
            "a set that can be compared": isinstance(links, set | frozenset) and whole,
            "links": str(sorted((int(t), int(s)) for t, s in links)),
        }

    return value_trial(label, act, kind="equality", says=LINK)


EXERCISES = (
    Exercise(
        "token_accuracy",
        "evaluation",
        10,
        core={
            "share": (
                tokens("rows of 3 and 1 real tokens", 3, B, T, 6, lengths=(3, 1)),
                tokens("pad_id=0 and rows without padding", 0, B, T, 6, lengths=(4, 4)),
            ),
            "padding": (
                tokens("rows of 5, 2, 1, 1 and 4 real tokens", 0, 5, 5, 5, lengths=(5, 2, 1, 1, 4)),
            ),
        },
        hints=(
            "Which of the targets count at all? Make a mask of them first.",
            "`argmax(dim=-1)` guesses a token for every position. Count where it is right *and* "
            "the target is real, and divide by the number of real targets.",
        ),
    ),
    Exercise(
        "alignment_from_attention",
        "evaluation",
        8,
        core={
            "links": (
                linked("a map (T, S)", MAP, 0.2),
                linked("a small threshold", MAP, 0.02),
                linked("a map that reaches the threshold nowhere", MAP, 0.999),
            ),
            "equal weights": (
                linked("weights that are equal to the threshold", HALVES, 0.5),
                linked("threshold 1", HALVES, 1.0),
            ),
        },
        hints=(
            "Comparing the table with the threshold gives a table of True and False. Does equal "
            "count?",
            "`nonzero()` lists the positions of the True ones as rows (t, s); `.tolist()` makes "
            "numbers of them, which can be put into a set.",
        ),
    ),
)
