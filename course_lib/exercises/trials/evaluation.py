"""What is asked of chapter 15."""

from collections.abc import Callable

import torch

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import B, T, Trial, looks, normal

ACCURACY = "Right tokens over real tokens, of all rows together; padding is in neither count."


def tokens(label: str, pad_id: int, *shape: int, lengths: tuple[int, ...]) -> Trial:
    """Compare the share for logits of some shape, and targets with so many real tokens."""
    logits = normal(label, *shape)
    best = logits.argmax(dim=-1)
    targets = torch.where(normal(label + "!", *shape[:2]) > 0, best, (best + 1) % shape[2])
    targets = torch.where(targets == pad_id, (targets + 1) % shape[2], targets)
    for row, real in enumerate(lengths):
        targets[row, real:] = pad_id
        logits[row, real : real + 1, pad_id] = 9.0  # some padding is guessed, some is not

    @looks(label, ACCURACY, "equality")
    def act(candidate: Callable) -> dict[str, float]:
        """Call it on copies."""
        return {"the share": float(candidate(logits.clone(), targets.clone(), pad_id))}

    return act


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
)
