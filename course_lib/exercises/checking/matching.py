"""Find the known mistake, or the pair of known mistakes, that explains an attempt's failures."""

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations

from course_lib.exercises.checking.error_messages import text_of
from course_lib.exercises.checking.exercise import Exercise, find_exercise, known_mistakes
from course_lib.exercises.checking.mistake import Mistake
from course_lib.exercises.checking.outcomes import Failure, Outcome, alike, differences
from course_lib.exercises.checking.signatures import MissingOption, adapt
from course_lib.exercises.checking.trial import try_out

FULL_MATCH = float("inf")
UNWRITTEN = NotImplementedError | MissingOption  # such a trial says nothing about a mistake


def find_mistake(
    exercise: Exercise, candidate: object, seen: Sequence[Outcome], first: Failure
) -> Mistake | None:
    """Find the mistake that explains the first failure and as many other failures as possible.

    We prefer a mistake that fits all trials, then one that fits the core, then one that fits the
    stages up to the first failing one, and then two mistakes that fit the core together. As a last
    resort, we choose the mistake that has the most wrong numbers in common with the answer, if no
    trial contradicts it.
    """
    asked = seen[: exercise.core_size] if first.trial < exercise.core_size else seen
    fitting = [
        mistake
        for mistake in known_mistakes(exercise.name)
        if alike(seen[first.trial], outcome_of(mistake, first.trial))
        and (outcome_of(mistake, first.trial).alone or not first.alone)
        and (not mistake.name.endswith("_ignored") or _changes_nothing(asked, mistake))
    ]
    for upto in (len(seen), exercise.core_size, exercise.ends[bisect(exercise.ends, first.trial)]):
        shared = {mistake: likeness(seen[:upto], mistake) for mistake in fitting}
        whole = [mistake for mistake in shared if shared[mistake] == FULL_MATCH]
        if whole:  # the other trials decide, and then the attempt's text
            if whole[1:]:
                whole.sort(key=lambda m: _agreeing(seen, m), reverse=True)
            text = text_of(candidate)
            matching_text = [m for m in whole if m.pattern and re.search(m.pattern, text, re.M)]
            return [*matching_text, *(m for m in whole if not m.pattern), *whole][0]
    if not fitting and first.trial < exercise.core_size:
        for mistake in _pairs(exercise, first.trial):
            if likeness(seen[: exercise.core_size], mistake) == FULL_MATCH:
                return mistake
    most = max(shared, key=lambda mistake: shared[mistake], default=None)
    return most if most is not None and shared[most] > 0 else None


def _agreeing(seen: Sequence[Outcome], mistake: Mistake) -> int:
    """Count the trials that agree; in one with a missing option, the known mistake must pass."""
    return sum(
        alike(mine, outcome_of(mistake, n))
        or (isinstance(mine.error, UNWRITTEN) and not fails(mistake, n))
        for n, mine in enumerate(seen)
    )


def _changes_nothing(seen: Sequence[Outcome], mistake: Mistake) -> bool:
    """Return whether an option has no effect on an attempt in any of the trials that set it."""
    return all(
        alike(mine, outcome_of(mistake, n)) or isinstance(mine.error, UNWRITTEN)
        for n, mine in enumerate(seen)
        if fails(mistake, n)
    )


def _pairs(exercise: Exercise, place: int) -> Iterator[Mistake]:
    """Pair the mistakes that make a trial fail, and yield each pair as one mistake."""
    failing = [mistake for mistake in known_mistakes(exercise.name) if fails(mistake, place)]
    for one, other in combinations(failing, 2):
        for first, second in ((one, other), (other, one)):
            both = Mistake(
                exercise.name,
                exercise.module,
                f"{first.name} + {second.name}",
                f"two things go wrong at once: {first.sentence}; and {second.sentence}",
                first.edits + second.edits,
            )
            try:
                both.implementation  # noqa: B018  # the second edit may not find its place
            except (ValueError, SyntaxError):
                continue
            yield both
            break


def likeness(mine: Sequence[Outcome], mistake: Mistake) -> float:
    """Count the trials in which an attempt gives the same wrong numbers as a known mistake.

    Returns ``FULL_MATCH`` if the two agree in every trial, and 0 if the mistake makes a trial fail
    in a different way. If they share only errors and no wrong numbers, the messages must be
    identical.
    """
    exercise, expected = find_exercise(mistake.exercise), expected_outcomes(mistake.exercise)
    tried = [n for n, seen in enumerate(mine) if not isinstance(seen.error, UNWRITTEN)]
    shared, wholly, errors = 0, True, []
    for n in tried:
        wrong = outcome_of(mistake, n)
        if not alike(mine[n], wrong):
            if fails(mistake, n):
                return 0
            wholly = False
        elif wrong.error is not None:
            errors.append((mine[n].error, wrong.error))
        else:
            failures = differences(mine[n], expected[n], exercise.trials[n].kind, "")
            shared += any(failure.alone == wrong.alone for failure in failures)
    if not shared and not (errors and all(str(one) == str(other) for one, other in errors)):
        return 0
    return FULL_MATCH if wholly else shared


def fails(mistake: Mistake, place: int) -> bool:
    """Return whether code with a known mistake fails one trial."""
    wrong, trial = outcome_of(mistake, place), find_exercise(mistake.exercise).trials[place]
    expected = expected_outcomes(mistake.exercise)[place]
    return wrong.error is not None or any(differences(wrong, expected, trial.kind, ""))


@cache
def outcome_of(mistake: Mistake, place: int) -> Outcome:
    """Return the outcome of one trial for a known mistake; each trial runs once per process."""
    exercise = find_exercise(mistake.exercise)
    return try_out(exercise.trials[place], adapt(mistake.implementation, exercise.definition))


@cache
def expected_outcomes(name: str) -> list[Outcome]:
    """Return the outcomes for the course's own definition; each trial runs once per process."""
    exercise = find_exercise(name)
    return [
        try_out(trial, adapt(exercise.definition, exercise.definition)) for trial in exercise.trials
    ]
