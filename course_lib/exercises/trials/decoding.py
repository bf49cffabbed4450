"""What is asked of chapter 11: how the next token is chosen, and ids that can be told apart."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trial import T, Trial, normal, observe, value_trial
from course_lib.exercises.trials.beam_step import EXERCISES as BEAMS
from course_lib.exercises.trials.greedy_decode import EXERCISES as GREEDY
from course_lib.exercises.trials.sampling import EXERCISES as SAMPLING


def scores(pad_id: int, *shape: int) -> dict[str, Any]:
    """Make logits of which some rows like padding best, and the rest of one row is below 0."""
    logits = normal("logits", *shape)
    logits[1, -1, pad_id] = 5.0
    logits[2, -1] -= 9.0
    logits[2, -1, pad_id] = 1.0
    ended = torch.tensor([False, False, False, True, True])
    return {"logits": logits, "ended": ended, "pad_id": pad_id}


def next_by_hand(logits: Tensor, ended: Tensor, pad_id: int) -> Tensor:
    """Look for the best token row by row."""
    rows = zip(logits[:, -1].tolist(), ended.tolist(), strict=True)
    best = [
        pad_id if done else max((v for v in range(len(row)) if v != pad_id), key=row.__getitem__)
        for row, done in rows
    ]
    return torch.tensor(best)


def next_case(label: str, pad_id: int, *shape: int) -> Trial:
    """Compare the chosen tokens with those found by hand, and look whether something changed."""

    def act(candidate: Callable) -> Outcome:
        """Call it on copies; gradients do not matter."""
        given = scores(pad_id, *shape)
        seen = observe(lambda now: candidate(*now.values()), given, ("tokens",))
        return Outcome(seen.values, {}, seen.changed)

    return Trial(label, act, lambda: act(next_by_hand), says=BEST)


BEST = "Each row: the highest score at the last position, padding left out; padding once it ended."


def next_of_rows(candidate: Callable) -> dict[str, Any]:
    """Ask for rows that like padding best, for rows that have ended, and once more."""
    given = [scores(0, 5, T, 6) for _ in range(6)]
    answers = [candidate(*x.values()) for x in given]
    return {
        "padding is chosen for a row that goes on": bool((answers[0][:3] == 0).any()),
        "a row that has ended gets padding": bool((answers[0][3:] == 0).all()),
        "asked again, it chooses the same": all(torch.equal(answers[0], x) for x in answers),
    }


EXERCISES = (
    Exercise(
        "argmax_tokens",
        "decoding",
        10,
        (
            next_case("sizes that all differ", 3, 5, T, 6),
            next_case("pad_id=0 and one position", 0, 5, 1, 6),
            next_case("sizes that are all equal", 2, 5, 5, 5),
            value_trial(
                "a look at padding",
                next_of_rows,
                {
                    "padding is chosen for a row that goes on": False,
                    "a row that has ended gets padding": True,
                    "asked again, it chooses the same": True,
                },
                says="Padding is for rows that have ended, and only for them; nothing is drawn.",
            ),
        ),
        (
            "`logits[:, -1]` holds the scores after the last position, `(B, V)`.",
            "Work on a copy (`clone`), set its column `pad_id` to `float('-inf')`, take the "
            "`argmax` over the last axis, and put `pad_id` where `ended` is true.",
        ),
    ),
    *GREEDY,
    *SAMPLING,
    *BEAMS,
)
