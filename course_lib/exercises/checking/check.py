"""Check an attempt: run the trials, sort the errors by severity, and name the mistake."""

import inspect
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Any

from course_lib.exercises.checking.call_tracer import watched
from course_lib.exercises.checking.error_messages import (
    explain,
    from_outside,
    learners_frame,
    wrote_above,
)
from course_lib.exercises.checking.exercise import Exercise, find_exercise
from course_lib.exercises.checking.matching import (
    FULL_MATCH,
    expected_outcomes,
    fails,
    find_mistake,
    likeness,
    outcome_of,
)
from course_lib.exercises.checking.mistake import Mistake
from course_lib.exercises.checking.outcomes import KINDS, Failure, Outcome, differences
from course_lib.exercises.checking.report import Report, Stage, lowered
from course_lib.exercises.checking.signatures import MissingOption, adapt, other_defaults
from course_lib.exercises.checking.trial import try_out, usual_settings

LEFTOVER = "Your code is there, but `raise NotImplementedError` still follows it. Delete that line."

UNTRIED = Outcome(error=NotImplementedError())


@usual_settings()
def examine(name: str, candidate: object) -> Report:
    """Run all of an exercise's trials on an attempt, and report any errors instead of raising them.

    Raises:
        ValueError: If there is no exercise with that name.
    """
    exercise = find_exercise(name)
    is_of_kind = inspect.isclass(exercise.definition) == inspect.isclass(candidate)
    if not callable(candidate) or not is_of_kind:
        return _not_a_candidate(exercise, candidate)
    expected_outcomes(name)  # before the watch, because this runs the course's own
    with watched(exercise.shortcuts, exercise.definition, candidate) as verdict:
        seen = observations(exercise, candidate)
        shortcut = verdict()
    unwritten = [s.error for s in seen if isinstance(s.error, NotImplementedError)]
    if len(unwritten) == len(seen):
        return _unwritten(exercise, unwritten[0])
    if shortcut:
        return Report(name, False, hint=shortcut, kind="runs")
    failures = ordered(exercise, seen)
    failed = {failure.trial for failure in failures}
    wrong = {n for n in failed if not isinstance(seen[n].error, MissingOption)}
    stages = exercise.stages(failed, wrong)
    core = [failure for failure in failures if failure.trial < exercise.core_size]
    if not failures:
        for told in other_defaults(candidate, exercise.definition):
            wrong_default = Stage("defaults", core=False, held=False, wrong=True)
            return Report(name, True, hint=told, kind="property", stages=(*stages, wrong_default))
        detail = "1 trial" if len(seen) == 1 else f"{len(seen)} trials"
        return Report(name, True, detail=detail, stages=stages)
    report = _named(exercise, candidate, seen, core or failures)
    return replace(report, passed=not core, stages=stages)


def observations(exercise: Exercise, candidate: Callable[..., Any]) -> list[Outcome]:
    """Run all trials; if one fails, try other ways to match layers of the same shape."""
    tried = adapt(candidate, exercise.definition)
    seen = [try_out(exercise.trials[0], tried)]
    with redirect_stdout(StringIO()):  # what an attempt prints is read once, not n times
        seen += [try_out(trial, tried) for trial in exercise.trials[1:]]
        order = layer_order(exercise, candidate, seen)
        if order:
            tried = adapt(candidate, exercise.definition, order)
            seen = [try_out(trial, tried) for trial in exercise.trials]
    return seen


def layer_order(
    exercise: Exercise, candidate: Callable[..., Any], seen: Sequence[Outcome]
) -> dict[str, str]:
    """Match each layer of an attempt with the course's layer that has the same role.

    If the names do not settle this, layers of the same shape may be matched in the wrong order, so
    we repeat the first failing core trial with the other possible orders. Returns the course's
    name for each layer, or an empty dict to keep the default order.
    """
    for place, outcome in enumerate(seen[: exercise.core_size]):
        if not _agrees(exercise, place, outcome):
            trial, tried = exercise.trials[place], adapt(candidate, exercise.definition)
            try_out(trial, tried)
            for order in () if outcome.error else getattr(tried, "orders", ()):
                if _agrees(
                    exercise, place, try_out(trial, adapt(candidate, exercise.definition, order))
                ):
                    return order
            break
    return {}


def _agrees(exercise: Exercise, place: int, outcome: Outcome) -> bool:
    """Return whether a trial had the expected outcome."""
    expected = expected_outcomes(exercise.name)[place]
    wrong = differences(outcome, expected, exercise.trials[place].kind, "")
    return outcome.error is None and not any(wrong)


def ordered(exercise: Exercise, seen: Sequence[Outcome]) -> list[Failure]:
    """List all failures, stage by stage, with coarse errors before subtle ones."""
    single = any(outcome.alone for outcome in seen)  # some trials unpack it as a pair

    def place(failure: Failure) -> tuple[bool, bool, bool, bool, bool, int, int]:
        """Return the sort key for a failure; missing arguments and different names come last."""
        beyond, stage = failure.trial >= exercise.core_size, bisect(exercise.ends, failure.trial)
        kind, formal = KINDS.index(failure.kind), _is_formal(exercise, seen, failure)
        misled = single and not seen[failure.trial].alone and failure.kind != "runs"
        return beyond, formal, failure.unwritten, misled, failure.alone, stage, kind

    return sorted(complaints(exercise, seen), key=place)


def _is_formal(exercise: Exercise, seen: Sequence[Outcome], failure: Failure) -> bool:
    """Return whether an extra fails only because an argument is missing or a name differs."""
    missing = isinstance(seen[failure.trial].error, MissingOption)
    return failure.trial >= exercise.core_size and (missing or failure.kind == "parameters")


def complaints(exercise: Exercise, seen: Sequence[Outcome]) -> Iterator[Failure]:
    """Yield every failure, trial by trial."""
    trials = zip(exercise.trials, seen, expected_outcomes(exercise.name), strict=True)
    for place, (trial, mine, right) in enumerate(trials):
        says = trial.says or exercise.formula
        failures: Iterable[Failure] = differences(mine, right, trial.kind, says)
        if mine.error is not None:
            kind = "runs" if learners_frame(mine.error) else trial.kind  # else: our code rejects it
            unwritten = isinstance(mine.error, NotImplementedError)
            failures = [Failure(kind, *explain(mine.error), unwritten)]
        for wrong in failures:
            told = f"With {trial.label}: {lowered(wrong.sentence)}"
            yield replace(wrong, sentence=told, trial=place)


def _not_a_candidate(exercise: Exercise, candidate: object) -> Report:
    """Reject an object of the wrong kind, such as a class instead of a function."""
    if candidate is None or candidate is ...:
        return Report(exercise.name, False, hint="There is no attempt yet.", attempted=False)
    kind = "class" if inspect.isclass(exercise.definition) else "function"
    hint = f"{exercise.name} should be a {kind}. Pass the {kind} itself, without calling it."
    description = "a class" if inspect.isclass(candidate) else f"of type {type(candidate).__name__}"
    return Report(exercise.name, False, hint=hint, kind="runs", detail=f"this is {description}")


def _unwritten(exercise: Exercise, error: NotImplementedError) -> Report:
    """Distinguish an untouched stub from one with code above its ``raise``."""
    if wrote_above(error):
        return Report(exercise.name, False, hint=LEFTOVER, kind="runs")
    hint = "Replace `raise NotImplementedError` with your own code."
    return Report(exercise.name, False, hint=hint, kind="runs", attempted=False)


def _named(
    exercise: Exercise,
    candidate: Callable[..., Any],
    seen: Sequence[Outcome],
    failures: Sequence[Failure],
) -> Report:
    """Report the first failure, and name the known mistake that explains it, if any."""
    first = failures[0]
    if seen[first.trial].alone:
        seen = [outcome if outcome.alone else UNTRIED for outcome in seen]
    mistake = None if first.unwritten else find_mistake(exercise, candidate, seen, first)
    hint = first.sentence if mistake is None else f"This is what you get when {mistake.sentence}."
    details = [first.detail, from_outside(candidate)]
    second = _second_problem(exercise, seen, failures, mistake)
    if mistake is None and first.trial < exercise.core_size and first.kind not in ("runs", "shape"):
        tried = adapt(candidate, exercise.definition)
        with redirect_stdout(StringIO()):
            try_out(exercise.trials[0], tried)
        hint += getattr(tried, "unlike", str)()
    if mistake is not None and (second is not None or first.kind == "runs"):
        details.insert(0, f"It first shows up {lowered(first.sentence)}")
    detail = "\n".join(line for line in details if line)
    name = mistake.name if mistake else None
    second_sentence = second.sentence if second else ""
    return Report(exercise.name, False, name, hint, first.kind, detail, second=second_sentence)


def _second_problem(
    exercise: Exercise,
    seen: Sequence[Outcome],
    failures: Sequence[Failure],
    mistake: Mistake | None,
) -> Failure | None:
    """Find a failure that cannot have the same cause as the first one.

    We are sure of this if a single tensor is returned instead of a pair, or if the known mistake
    explains the first failing stage completely but passes a trial that the attempt fails.
    """
    first = failures[0]
    end = exercise.ends[bisect(exercise.ends, first.trial)]
    sure = mistake is not None and likeness(seen[:end], mistake) == FULL_MATCH
    for other in failures[1:]:
        if other.alone and not first.alone:
            if mistake is None or not outcome_of(mistake, other.trial).alone:
                return other
        elif sure and mistake is not None and not (other.unwritten or other.alone):
            if not fails(mistake, other.trial) and not _is_formal(exercise, seen, other):
                return other
    return None


def caught_at(mistake: Mistake) -> tuple[str, str]:
    """Return the stages that catch a known mistake, and the kind of its first failure."""
    exercise = find_exercise(mistake.exercise)
    seen = [outcome_of(mistake, place) for place in range(len(exercise.trials))]
    failures = ordered(exercise, seen)
    stages = exercise.stages({failure.trial for failure in failures})
    failed = " · ".join(stage.name for stage in stages if not stage.held)
    return failed, failures[0].kind if failures else ""
