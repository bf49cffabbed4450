"""What is asked of chapter 16's batches: each pair once, in order, none too large, all full."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from operator import index
from typing import Any

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, refuses, value_trial
from course_lib.exercises.outcomes import Outcome

Lengths = Sequence[tuple[int, int]]
Batches = Sequence[Sequence[int]]


def tried(
    label: str, trials: Mapping[str, tuple], read: Callable, wanted: Mapping, stage: str, says: str
) -> Trial:
    """Call it on copies of what each trial gives; ``read`` makes named values of the answer."""

    def act(candidate: Callable) -> Outcome:
        """Try it on every trial, and look for changes."""
        values, changed = {}, set()
        for name, given in trials.items():
            copies = deepcopy(given)
            values |= read(name, candidate(*copies), *given)
            changed |= {
                what
                for what, now, before in zip(("lengths", "batches"), copies, given, strict=True)
                if now != before
            }
        return Outcome(values, {}, tuple(sorted(changed)))

    return Trial(label, act, lambda: Outcome(dict(wanted)), stage, says)


def listed(answer: Any) -> list[list[int]] | str:
    """Return batches as lists of numbers; say what came if it is something else."""
    held = answer if isinstance(answer, list | tuple) else [answer]
    if held is answer and all(isinstance(batch, list | tuple) for batch in held):
        try:
            return [[*map(index, batch)] for batch in held]
        except TypeError:
            held = [pair for batch in held for pair in batch]
    kinds = ", ".join(sorted({type(one).__name__ for one in held}))
    return f"no lists of indices, but {kinds}"


def kind(batches: Batches | str) -> str:
    """Name what came out."""
    return batches if isinstance(batches, str) else "lists of indices"


def cost(lengths: Lengths, batch: Sequence[int]) -> int:
    """Count the places of a batch, B · (S + T)."""
    return len(batch) * sum(max(lengths[i][side] for i in batch) for side in (0, 1)) if batch else 0


def cut_by_hand(lengths: Lengths, tokens: int) -> list[list[int]]:
    """Take as many of those that are left as fit, again and again."""
    left = sorted(range(len(lengths)), key=lambda i: (max(lengths[i]), min(lengths[i])))
    batches = []
    while left:
        fits = max(n for n in range(1, len(left) + 1) if cost(lengths, left[:n]) <= tokens)
        batches.append(left[:fits])
        left = left[fits:]
    return batches


def faults(batches: Batches | str, lengths: Lengths, tokens: int) -> dict[str, int | str]:
    """Count what is wrong with batches, whichever of two equal pairs stands first."""
    if isinstance(batches, str):
        return dict.fromkeys(sum(FAULTS, ()), batches)
    known = [[i for i in batch if 0 <= i < len(lengths)] for batch in batches]
    flat = sum(known, [])
    keys = [(max(lengths[i]), min(lengths[i])) for i in flat]
    pairs = zip(known, known[1:], strict=False)
    return {
        MISSING: len(set(range(len(lengths))) - set(flat)),
        TOO_MANY: sum(map(len, batches)) - len(set(flat)),
        TOO_LARGE: sum(cost(lengths, batch) > tokens for batch in known),
        UNSORTED: sum(one > other for one, other in zip(keys, keys[1:], strict=False)),
        ROOM: sum(cost(lengths, [*batch, *after[:1]]) <= tokens for batch, after in pairs),
        EMPTY: sum(not batch for batch in batches),
    }


MISSING, TOO_MANY = "pairs that stand in no batch", "places too many"
TOO_LARGE, UNSORTED = "batches above the bound", "pairs right behind a longer one"
ROOM, EMPTY = "batches with room for the next pair", "empty batches"
FAULTS = {
    (MISSING, TOO_MANY): "Each index into `lengths` stands in one batch, once.",
    (TOO_LARGE,): "No batch has more than `tokens` places, B · (S + T), padding included.",
    (UNSORTED,): "From the shortest to the longest: by the longer side, then by the shorter one.",
    (ROOM, EMPTY): "A batch ends only where the next pair would be too much; none is empty.",
}
MANY = [  # no two have the same longer and shorter side
    (5, 9), (2, 2), (7, 3), (4, 6), (9, 1), (1, 1), (6, 6), (8, 5), (3, 2), (4, 4), (7, 10), (1, 5),
    (6, 5), (2, 8), (9, 9), (3, 6), (2, 5), (8, 8), (1, 7), (10, 3), (4, 1), (7, 7), (9, 4), (5, 5),
]  # fmt: skip
TWINS = [(3, 5), (5, 3), (2, 4), (5, 3), (4, 2), (3, 5), (4, 4), (2, 4), (5, 5), (4, 2), (5, 3)]
CUTS = {
    "three pairs": ([(2, 2), (9, 9), (2, 1)], 20),
    "sources and targets that are longer": ([(6, 2), (2, 5), (1, 1), (3, 4)], 24),
    "short sources": ([(1, 6), (2, 7), (1, 8)], 16),
    "a wide pair that opens a batch": ([(1, 5), (5, 5), (6, 1)], 19),
    "narrow pairs behind a wide one": ([(9, 2), (2, 10), (2, 11)], 30),
    "a pair that would fit further up": ([(9, 2), (2, 10), (11, 3)], 30),
    "a pair as long as a batch": ([(7, 5), (2, 1), (3, 1)], 12),
    "one pair": ([(3, 4)], 20),
    "no pairs": ([], 20),
    "24 pairs": (MANY, 60),
}
TOO_LONG = {
    "a source and a target too long together": ([(2, 3), (12, 11)], 20),
    "the only pair too long": ([(16, 17)], 32),
    "a long pair in front": ([(2, 40), (3, 3), (1, 2)], 30),
}


def cuts_refused(candidate: Callable) -> dict[str, Any]:
    """Hand over pairs that fit in no batch; show what came out in place of an error."""
    shown, answers = {}, []
    for name, (lengths, tokens) in TOO_LONG.items():
        words, copy = (max(map(sum, lengths)), tokens), list(lengths)
        shown[name] = refuses(
            lambda *given: answers.append(candidate(*given)), copy, tokens, words=words
        )
        if shown[name] == "no error":
            shown[name] += f", but {listed(answers[-1])}"
    return shown


EXERCISES = (
    Exercise(
        "batch_by_tokens",
        "batching",
        20,
        (
            tried(
                "three pairs",
                {"three pairs": CUTS["three pairs"]},
                lambda _, answer, *__: {"what comes out": kind(listed(answer))},
                {"what comes out": "lists of indices"},
                "shape",
                "A list of batches, each a list of indices into `lengths`.",
            ),
            *(
                tried(
                    "24 pairs",
                    {"24 pairs": CUTS["24 pairs"]},
                    lambda _, answer, *given, names=names: {
                        name: faults(listed(answer), *given)[name] for name in names
                    },
                    dict.fromkeys(names, 0),
                    "property",
                    says,
                )
                for names, says in FAULTS.items()
            ),
            tried(
                "pairs of equal lengths, in whichever order",
                {"twins": (TWINS, 40)},
                lambda _, answer, *given: faults(listed(answer), *given),
                dict.fromkeys(sum(FAULTS, ()), 0),
                "equality",
                "Each pair once, the shortest first, and every batch as full as it may be.",
            ),
            tried(
                "pairs of several lengths",
                CUTS,
                lambda name, answer, *_: {f"the batches of {name}": str(listed(answer))},
                {
                    f"the batches of {name}": str(cut_by_hand(*given))
                    for name, given in CUTS.items()
                },
                "equality",
                "The shortest first; where B · (S + T) would be more than `tokens`, a batch ends.",
            ),
            value_trial(
                "pairs that fit in no batch",
                cuts_refused,
                dict.fromkeys(TOO_LONG, "a ValueError"),
                says="A pair of more than `tokens` tokens is a ValueError that says both numbers.",
            ),
        ),
        (
            "`sorted(range(len(lengths)), key=…)` puts indices in order, not lengths. What is the "
            "key, if the longer side counts first and then the shorter one?",
            "Keep the batch you are filling, and its longest source and target. What would both "
            "be with the next pair, and how many places would that make?",
            "If `(len(batch) + 1) * (S + T)` is more than `tokens`, put the batch aside and begin "
            "a new one with this pair, as wide as this pair. The last batch is put aside as well.",
        ),
    ),
)
