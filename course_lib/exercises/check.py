"""Check an attempt: try it, compare from the coarse to the subtle, and name the mistake."""

import inspect
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from typing import Any

from course_lib.exercises.call_tracer import watched
from course_lib.exercises.check_report import Report
from course_lib.exercises.error_messages import (
    explain,
    from_outside,
    learners_frame,
    text_of,
    wrote_above,
)
from course_lib.exercises.exercise_bank import Exercise, exercise, known_mistakes
from course_lib.exercises.mistake_catalogue import Mistake
from course_lib.exercises.outcomes import KINDS, Failure, Outcome, alike, differences
from course_lib.exercises.signature_adapter import MissingOption, adapt
from course_lib.exercises.trial import try_out

WHOLLY = float("inf")
LEFTOVER = "Your lines are there, and `raise NotImplementedError` is still below: delete that line."


def examine(name: str, candidate: Any) -> Report:
    """Try an attempt on everything that its exercise asks; never raise on its mistakes.

    Args:
        name: The exported name, such as ``"MultiHeadAttention"``.
        candidate: The function or the class itself.

    Raises:
        ValueError: If there is no exercise of that name.
    """
    task = exercise(name)
    refused = _not_a_candidate(task, candidate)
    if refused is not None:
        return refused
    tried = adapt(candidate, task.given)
    with watched(task.shortcuts, task.given, candidate) as verdict:
        seen = [try_out(task.trials[0], tried)]
        with redirect_stdout(StringIO()):  # what an attempt prints is read once, not n times
            seen += [try_out(trial, tried) for trial in task.trials[1:]]
        shortcut = verdict()
    unwritten = [s.error for s in seen if isinstance(s.error, NotImplementedError)]
    if len(unwritten) == len(seen):
        return _unwritten(task, unwritten[0])
    if shortcut:
        return Report(name, False, hint=shortcut, kind="runs")
    found = ordered(task, seen)
    failed = {failure.trial for failure in found}
    wrong = {n for n in failed if not isinstance(seen[n].error, MissingOption)}
    stages = task.stages(failed, wrong)
    core = [failure for failure in found if failure.trial < task.core_size]
    if not found:
        count = len(task.trials)
        detail = f"{count} trial{'s' if count > 1 else ''}"
        return Report(name, True, detail=detail, stages=stages)
    report = _named(task, candidate, seen, core or found)
    return replace(report, passed=not core, stages=stages)


def ordered(task: Exercise, seen: Sequence[Outcome]) -> list[Failure]:
    """List all that is wrong: stage by stage, and in each the coarse before the subtle."""

    def place(failure: Failure) -> tuple[bool, bool, bool, int, int]:
        """Return where it stands: what is missing, or has another name, hides nothing wrong."""
        beyond, stage = failure.trial >= task.core_size, bisect(task.ends, failure.trial)
        formal = _is_formal(task, seen, failure)
        return beyond, formal, failure.unwritten, stage, KINDS.index(failure.kind)

    return sorted(complaints(task, seen), key=place)


def _is_formal(task: Exercise, seen: Sequence[Outcome], failure: Failure) -> bool:
    """Say whether an extra fails for a missing argument or another name alone."""
    missing = isinstance(seen[failure.trial].error, MissingOption)
    return failure.trial >= task.core_size and (missing or failure.kind == "parameters")


def complaints(task: Exercise, seen: Sequence[Outcome]) -> Iterator[Failure]:
    """Yield everything that is wrong, trial by trial."""
    trials = zip(task.trials, seen, _wanted(task.name), strict=True)
    for place, (trial, mine, right) in enumerate(trials):
        if mine.error is not None:
            sentence, detail = explain(mine.error)
            kind = "runs" if learners_frame(mine.error) else trial.kind  # else: of no use to us
            unwritten = isinstance(mine.error, NotImplementedError)
            sentence = f"With {trial.label}: {sentence}"
            yield Failure(kind, sentence, detail, unwritten, place)
            continue
        for wrong in differences(mine, right, trial.kind, trial.says):
            yield replace(wrong, sentence=f"With {trial.label}: {wrong.sentence}", trial=place)


def _not_a_candidate(task: Exercise, candidate: Any) -> Report | None:
    """Answer what is no attempt at all, or is of the wrong kind."""
    if candidate is None or candidate is ...:
        return Report(task.name, False, hint="There is no attempt yet.", attempted=False)
    if inspect.isclass(task.given) == inspect.isclass(candidate) and callable(candidate):
        return None
    kind = "class" if inspect.isclass(task.given) else "function"
    hint = f"{task.name} is to be a {kind}; give the {kind} itself, without calling it."
    found = "a class" if inspect.isclass(candidate) else f"of type {type(candidate).__name__}"
    return Report(task.name, False, hint=hint, kind="runs", detail=f"what came is {found}")


def _unwritten(task: Exercise, error: NotImplementedError) -> Report:
    """Tell an untouched stub from one with lines above its ``raise``."""
    if wrote_above(error):
        return Report(task.name, False, hint=LEFTOVER, kind="runs")
    hint = "Replace `raise NotImplementedError` by yours."
    return Report(task.name, False, hint=hint, kind="runs", attempted=False)


def _named(
    task: Exercise, candidate: Any, seen: Sequence[Outcome], found: Sequence[Failure]
) -> Report:
    """Report the first thing that is wrong, under the name of the known mistake it looks like."""
    first = found[0]
    mistake = None if first.unwritten else _looks_like(task, candidate, seen, first)
    detail = "\n".join(line for line in (first.detail, from_outside(candidate)) if line)
    if mistake is None:
        return Report(task.name, False, None, first.sentence, first.kind, detail)
    hint = f"This is what comes out when {mistake.sentence}."
    for other in found:
        same = alike(seen[other.trial], _seen_of(mistake, other.trial))
        if not same and not _is_formal(task, seen, other):
            hint += f" Beside it, something else is not right. {other.sentence}"
            detail = "\n".join(x for x in (f"What shows first: {first.sentence}", detail) if x)
            break
    return Report(task.name, False, mistake.name, hint, first.kind, detail)


def _looks_like(
    task: Exercise, candidate: Any, seen: Sequence[Outcome], first: Failure
) -> Mistake | None:
    """Find the known mistake that explains the first complaint, and as much else as possible.

    One that fits all trials goes first, then one that fits the core, then one that fits the stages
    up to the first that does not hold: several mistakes are named one after the other.
    """
    known = [
        m for m in known_mistakes(task.name) if alike(seen[first.trial], _seen_of(m, first.trial))
    ]
    text = text_of(candidate)
    for upto in (len(seen), task.core_size, task.ends[bisect(task.ends, first.trial)]):
        shared = {mistake: _likeness(seen[:upto], mistake) for mistake in known}
        whole = [mistake for mistake in shared if shared[mistake] == WHOLLY]
        told = [m for m in whole if m.tells and re.search(m.tells, text, re.M)]
        for mistake in told + [m for m in whole if not m.tells] + whole:
            return mistake
    most = max(shared, key=shared.get, default=None)
    return most if most is not None and shared[most] > 0 else None


def _likeness(mine: Sequence[Outcome], mistake: Mistake) -> float:
    """Count the trials in which an attempt shows the wrong numbers of a known mistake.

    ``WHOLLY`` if it comes out as the mistake does wherever it is written; 0 if the mistake is wrong
    somewhere in another way. Where the two share no wrong number, only errors, these must be the
    same word for word.
    """
    task, wanted = exercise(mistake.exercise), _wanted(mistake.exercise)
    tried = [n for n, seen in enumerate(mine) if not isinstance(seen.error, NotImplementedError)]
    shared, wholly, errors = 0, True, []
    for n in tried:
        known, trial = _seen_of(mistake, n), task.trials[n]
        if alike(mine[n], known):
            if known.error is not None:
                errors.append((mine[n].error, known.error))
            else:
                shared += any(differences(mine[n], wanted[n], trial.kind, ""))
        elif known.error is not None or any(differences(known, wanted[n], trial.kind, "")):
            return 0
        else:
            wholly = False
    if not shared and not (errors and all(str(one) == str(other) for one, other in errors)):
        return 0
    return WHOLLY if wholly else shared


@cache
def _seen_of(mistake: Mistake, place: int) -> Outcome:
    """Try a known mistake on one trial, once per process; most differ in the first."""
    task = exercise(mistake.exercise)
    return try_out(task.trials[place], adapt(mistake.implementation, task.given))


@cache
def _wanted(name: str) -> list[Outcome]:
    """Try the course's own definition, once per process."""
    task = exercise(name)
    return [try_out(trial, adapt(task.given, task.given)) for trial in task.trials]


def caught_at(mistake: Mistake) -> tuple[str, str]:
    """Return which stages a known mistake fails, and how it shows first, one of ``KINDS``."""
    task = exercise(mistake.exercise)
    seen = [_seen_of(mistake, place) for place in range(len(task.trials))]
    found = ordered(task, seen)
    stages = task.stages({failure.trial for failure in found})
    failed = " · ".join(stage.name for stage in stages if not stage.held)
    return failed, found[0].kind if found else ""
