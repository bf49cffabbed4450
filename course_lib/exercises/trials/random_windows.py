"""What is asked of chapter 17's windows: pieces of the text, from anywhere, with what follows."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, normal, refuses, value_trial
from course_lib.exercises.outcomes import Outcome, describe

TEXT = normal("a text", 40).argsort() + 50  # 40 tokens, 50 … 89, no two alike
READ, PREDICTED = "what is read", "what is to be predicted"
NEXT, AFTER = "places from one token to the next", f"places from a token to {PREDICTED}"
WHERE = "windows begin"


def pair_of(answer: Any) -> list[Tensor]:
    """Return the two tensors that came out.

    Raises:
        TypeError: If it was something else.
    """
    held = list(answer) if isinstance(answer, tuple | list) else [answer]
    if len(held) == 2 and all(isinstance(x, Tensor) for x in held):
        return held
    raise TypeError(f"{READ} and {PREDICTED} should come out, two tensors, not {describe(answer)}")


def drawn(
    candidate: Callable, text: Tensor, batch: int, length: int, generator: Any = None
) -> tuple[Tensor, Tensor]:
    """Draw windows, and say where in the text their tokens stand; far off, for strangers."""
    read, predicted = pair_of(candidate(text, batch, length, generator))
    where = torch.full((100,), -1000)
    where[text] = torch.arange(len(text))
    return where[read.long().clamp(0, 99)], where[predicted.long().clamp(0, 99)]


def shapes(candidate: Callable) -> dict[str, str]:
    """Name what comes out."""
    pair = pair_of(candidate(TEXT.clone(), 3, 5))
    return {name: describe(x) for name, x in zip((READ, PREDICTED), pair, strict=True)}


def listed(numbers: Tensor) -> str:
    """List the different numbers, unless there are many."""
    found = sorted(set(numbers.flatten().tolist()))
    return str(found) if len(found) < 4 else "many"


def steps(candidate: Callable) -> Outcome:
    """Measure from token to token, in many windows."""
    text = TEXT[:12].clone()
    read, predicted = drawn(candidate, text, 300, 4)
    shown = {NEXT: listed(read.diff(dim=1)), AFTER: listed(predicted - read)}
    return Outcome(shown, {}, () if text.equal(TEXT[:12]) else ("ids",))


def beginnings(candidate: Callable) -> dict[str, str]:
    """Say where in a text of 12 tokens windows of 4 begin."""
    last = 12 - 4 - 1
    starts = set(drawn(candidate, TEXT[:12].clone(), 600, 4)[0][:, 0].tolist())
    never = sorted(set(range(last + 1)) - starts)
    if len(starts) == 1:
        return {WHERE: "all at one place"}
    if len(never) > last // 2:
        return {WHERE: f"only at {', '.join(map(str, sorted(starts)))}"}
    return {WHERE: f"never at {', '.join(map(str, never))}" if never else "everywhere"}


def how_often(candidate: Callable) -> dict[str, str]:
    """Count how often each of five beginnings is drawn, the rarest first."""
    starts = drawn(candidate, TEXT[:9].clone(), 1500, 4)[0][:, 0].tolist()
    shares = sorted(round(count / 1500, 1) for count in Counter(starts).values())
    return {"shares of the five beginnings": ", ".join(map(str, shares))}


def whole_text(candidate: Callable) -> dict[str, Tensor]:
    """Draw from a text that holds one window."""
    read, predicted = pair_of(candidate(TEXT[:5].clone(), 2, 4))
    return {READ: read, PREDICTED: predicted}


def dice(candidate: Callable) -> dict[str, bool]:
    """Draw with generators of the same seed, with another, and twice with one."""

    def draw(generator: torch.Generator) -> Tensor:
        """Draw windows of 8 tokens."""
        return drawn(candidate, TEXT.clone(), 30, 8, generator)[0]

    one = torch.Generator().manual_seed(1)
    first, later = draw(one), draw(one)
    again, other = (draw(torch.Generator().manual_seed(seed)) for seed in (1, 2))
    return {
        "the same generator gives the same windows": first.equal(again),
        "another one gives others": not first.equal(other),
        "a second call gives others": not first.equal(later),
    }


def bad_calls(candidate: Callable) -> dict[str, str]:
    """Ask for windows that cannot be drawn."""
    return {
        "a text as long as what is read": refuses(candidate, TEXT[:4].clone(), 2, 4),
        "a text that is too short": refuses(candidate, TEXT[:3].clone(), 2, 4),
        "no windows": refuses(candidate, TEXT.clone(), 0, 4),
        "windows of length 0": refuses(candidate, TEXT.clone(), 2, 0),
    }


EXERCISES = (
    Exercise(
        "random_windows",
        "decoder_only",
        12,
        (
            value_trial(
                "3 windows of 5 tokens",
                shapes,
                dict.fromkeys((READ, PREDICTED), "a tensor of torch.int64 of shape (3, 5)"),
                stage="shape",
                says="Two tensors of tokens come out, each of shape (batch_size, length).",
            ),
            Trial(
                "a text of 12 tokens that are all different",
                steps,
                lambda: Outcome({NEXT: "[1]", AFTER: "[1]"}),
                "property",
                "A window is a piece of the text as it stands there, and to be predicted is, at "
                "every place, the token that follows.",
            ),
            value_trial(
                "600 windows of 4 from a text of 12",
                beginnings,
                {WHERE: "everywhere"},
                says="Every window that fits can be drawn: it begins at 0 … len(ids) - length - 1.",
            ),
            value_trial(
                "1,500 windows of 4 from a text of 9",
                how_often,
                {"shares of the five beginnings": "0.2, 0.2, 0.2, 0.2, 0.2"},
                says="All places are equally likely.",
            ),
            value_trial(
                "a text as long as one window",
                whole_text,
                {READ: TEXT[:4].repeat(2, 1), PREDICTED: TEXT[1:5].repeat(2, 1)},
                stage="equality",
                says="A window takes length + 1 tokens; here that is the whole text.",
            ),
            value_trial(
                "generators",
                dice,
                dict.fromkeys(
                    (
                        "the same generator gives the same windows",
                        "another one gives others",
                        "a second call gives others",
                    ),
                    True,
                ),
                says="The random numbers come from `generator`, as it stands.",
            ),
            value_trial(
                "calls that cannot be right",
                bad_calls,
                dict.fromkeys(
                    (
                        "a text as long as what is read",
                        "a text that is too short",
                        "no windows",
                        "windows of length 0",
                    ),
                    "a ValueError",
                ),
                says="Sizes from 1, and a text of at least length + 1 tokens, or a ValueError.",
            ),
        ),
        (
            "How many tokens does a window take out of the text, if `length` are read and each of "
            "them has a successor? Where can the last such window begin?",
            "`torch.randint(end, (batch_size, 1), generator=generator)` draws a column of places, "
            "0 … end - 1. Add `torch.arange(length + 1)`, and every row counts on from its place.",
            "A tensor of places is an index: `ids[starts + torch.arange(length + 1)]`. All columns "
            "but the last are read, all but the first are to be predicted.",
        ),
    ),
)
