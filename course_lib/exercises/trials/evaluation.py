"""What is asked of chapter 14: what is counted, out of how many, and what counts for nothing."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import B, T, Trial, normal, refuses, value_trial
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trials.alignment import EXERCISES as ALIGNMENT

PAIRS = {  # what was written, what is right, the share of equal texts
    "three of four": (["elf", "zwei", "drei", "acht"], ["elf", "zwei", "drei", "vier"], 3 / 4),
    "one of three right": (["null", "zehn", "elf"], ["eins", "zehn", "zwölf"], 1 / 3),
    "the right texts in another order": (["zwei", "eins", "drei"], ["eins", "zwei", "drei"], 1 / 3),
    "a capital letter": (["Eins", "zwei"], ["eins", "zwei"], 1 / 2),
    "a space at an end": (["eins ", "zwei"], ["eins", "zwei"], 1 / 2),
    "texts that go on": (["dreihundert", "elf", "drei"], ["drei", "elf", "dreißig"], 1 / 3),
    "the same text twice": (["eins", "eins", "zwei"], ["eins", "eins", "drei"], 2 / 3),
    "all right": (["eins", "zwei"], ["eins", "zwei"], 1.0),
    "all wrong": (["eins", "zwei"], ["elf", "zwölf"], 0.0),
}  # fmt: skip


def number(answer: Any) -> Any:
    """Take numbers of every kind for what they are worth."""
    if isinstance(answer, Tensor) and answer.numel() == 1:
        return answer.item() + 0.0
    return float(answer) if isinstance(answer, int | float) else answer


def shares(candidate: Callable) -> dict[str, Any]:
    """Count on every list."""
    return {
        f"the share with {name}": number(candidate(list(written), list(wanted)))
        for name, (written, wanted, _) in PAIRS.items()
    }


LENGTHS = {
    "two texts against three": (["eins", "zwei"], ["eins", "zwei", "drei"]),
    "three texts against two": (["eins", "zwei", "drei"], ["eins", "zwei"]),
    "no texts": ([], []),
}


def shares_refused(candidate: Callable) -> dict[str, Any]:
    """Hand over lists that cannot be compared."""
    return {
        name: refuses(candidate, *lists, words=tuple(map(len, lists)))
        for name, lists in LENGTHS.items()
    }


def tokens(label: str, pad_id: int, *shape: int, lengths: tuple[int, ...]) -> Trial:
    """Compare the share of right tokens with one counted token by token."""
    rows, length, vocab_size = shape
    logits = normal(label, *shape)
    best = logits.argmax(dim=-1)
    targets = torch.where(normal(label + "!", rows, length) > 0, best, (best + 1) % vocab_size)
    targets = torch.where(targets == pad_id, (targets + 1) % vocab_size, targets)
    for row, real in enumerate(lengths):
        targets[row, real:] = pad_id
        logits[row, real : real + 1, pad_id] = 9.0  # some padding is guessed, some is not

    def act(candidate: Callable) -> Outcome:
        """Call it on copies."""
        given = logits.clone(), targets.clone()
        share = number(candidate(*given, pad_id))
        pairs = zip(NAMES, given, (logits, targets), strict=True)
        changed = [name for name, after, before in pairs if not after.equal(before)]
        return Outcome({"the share": share}, {}, tuple(changed))

    right = [
        int(max(range(vocab_size), key=logits[row, place].tolist().__getitem__) == token)
        for row, line in enumerate(targets.tolist())
        for place, token in enumerate(line)
        if token != pad_id
    ]
    wanted = Outcome({"the share": sum(right) / len(right)})
    return Trial(label, act, lambda: wanted, says=SHARE)  # fmt: skip


NAMES = ("logits", "targets")
SHARE = "Right tokens over real tokens, of all rows together; padding is in neither count."
MISFITS = {
    "one target row for two": (torch.zeros(2, 4, 6), torch.ones(1, 4, dtype=torch.long), 0),
    "one place too few": (torch.zeros(2, 4, 6), torch.ones(2, 3, dtype=torch.long), 0),
    "logits without V": (torch.zeros(2, 4), torch.ones(2, 4, dtype=torch.long), 0),
    "padding only": (torch.zeros(2, 4, 6), torch.zeros(2, 4, dtype=torch.long), 0),
}


def tokens_refused(candidate: Callable) -> dict[str, Any]:
    """Hand over shapes that do not fit, and targets of which none counts."""
    return {name: refuses(candidate, *given) for name, given in MISFITS.items()}


EXERCISES = (
    Exercise(
        "exact_match",
        "evaluation",
        8,
        (
            value_trial(
                "lists of texts",
                shares,
                {f"the share with {name}": share for name, (*_, share) in PAIRS.items()},
                stage="equality",
                says="The texts that equal the one at their own place, over all texts.",
            ),
            value_trial(
                "lists that cannot be compared",
                shares_refused,
                dict.fromkeys(LENGTHS, "a ValueError"),
                says="As many texts on both sides, and at least one, or a ValueError.",
            ),
        ),
        (
            "`zip` walks through both lists together; what does it do when one is shorter?",
            "`a == b` is True or False, and `sum` counts the True ones. Divide by how many there "
            "are; refuse other lengths before.",
        ),
    ),
    Exercise(
        "token_accuracy",
        "evaluation",
        10,
        (
            tokens("rows of 3 and 1 real tokens", 3, B, T, 6, lengths=(3, 1)),
            tokens("pad_id=0 and rows without padding", 0, B, T, 6, lengths=(4, 4)),
            tokens("rows of 5, 2, 1, 1 and 4 real tokens", 0, 5, 5, 5, lengths=(5, 2, 1, 1, 4)),
            tokens("one token", 1, 1, 1, 7, lengths=(1,)),
            value_trial(
                "inputs that do not fit",
                tokens_refused,
                dict.fromkeys(MISFITS, "a ValueError"),
                says="Logits (B, T, V) and targets (B, T) with a real one, or a ValueError.",
            ),
        ),
        (
            "Which of the targets count at all? Make a mask of them first.",
            "`argmax(dim=-1)` guesses a token for every place. Count where it is right *and* the "
            "target is real, and divide by the number of real targets.",
        ),
    ),
    *ALIGNMENT,
)
