"""Check an attempt: try it, compare from the coarse to the subtle, and name the mistake."""

import difflib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from io import StringIO
from typing import Any

import torch

from course_lib.exercises.call_tracer import watched
from course_lib.exercises.error_messages import explain, from_outside, learners_frame, text_of
from course_lib.exercises.mistake_catalogue import Mistake, given
from course_lib.exercises.outcomes import STAGES, Failure, Outcome, alike, differences
from course_lib.exercises.report import Report
from course_lib.exercises.trial import Trial, try_out

MODULES = (
    "attention",
    "multi_head",
    "positions",
    "add_norm",
    "feed_forward",
    "masks",
    "encoder",
    "decoder",
    "transformer",
    "training",
    "kv_cache",
    "decoding",
    "beam_search",
    "evaluation",
    "batching",
    "decoder_only",
    "gpt",
    "modern_decoder",
    "lora",
    "flops",
    "data_parallel",
)
WHOLLY = float("inf")


@dataclass(frozen=True)
class Exercise:
    """Hold what an exercise is checked by.

    Args:
        name: The exported definition.
        module: Where it stands.
        minutes: How long a first-time learner needs.
        trials: What is tried, in order.
        hints: Help for the learner, from gentle to plain.
        shortcuts: Functions of torch that are the thing itself, and what to say about each.
    """

    name: str
    module: str
    minutes: int
    trials: Sequence[Trial]
    hints: Sequence[str] = ()
    shortcuts: Mapping[Any, str] = field(default_factory=dict)

    @property
    def given(self) -> Any:
        """Return the course's own definition."""
        return given(self.module, self.name)


def exercises() -> list[str]:
    """Return the names of all exercises, module after module in the order of imports."""
    return list(_catalogue())


def exercise(name: str) -> Exercise:
    """Return an exercise by its name.

    Raises:
        ValueError: If there is none of that name; the message says which are near.
    """
    return look_up(name, _catalogue(), "exercise")


def look_up(name: str, known: Mapping[str, Any], kind: str) -> Any:
    """Return what goes by a name.

    Raises:
        ValueError: If nothing does; the message says which names are near.
    """
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, n=3) or known
    raise ValueError(f"there is no {kind} {name!r}; did you mean {', '.join(near)}?")


def known_mistakes(name: str) -> list[Mistake]:
    """Return the known mistakes of an exercise.

    Raises:
        ValueError: If there is no such exercise.
    """
    bank = import_module(f"course_lib.exercises.mistakes.{exercise(name).module}").MISTAKES
    return [mistake for mistake in bank if mistake.exercise == name]


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
    with watched(task.shortcuts, task.given, candidate) as verdict:
        seen = [try_out(task.trials[0], candidate)]
        with redirect_stdout(StringIO()):  # what an attempt prints is read once, not n times
            seen += [try_out(trial, candidate) for trial in task.trials[1:]]
        shortcut = verdict()
    unwritten = [s.error for s in seen if isinstance(s.error, NotImplementedError)]
    if len(unwritten) == len(seen):
        return _unwritten(task, unwritten[0])
    if shortcut:
        return Report(name, False, hint=shortcut, stage="runs")
    found = sorted(complaints(task, seen), key=lambda complaint: complaint.place)
    if not found:
        count = len(task.trials)
        return Report(name, True, detail=f"{count} trial{'s' if count > 1 else ''}")
    return _named(task, candidate, seen, found[0])


def complaints(task: Exercise, seen: Sequence[Outcome]) -> Iterator[Failure]:
    """Yield everything that is wrong, trial by trial."""
    trials = zip(task.trials, seen, _wanted(task.name), strict=True)
    for place, (trial, mine, right) in enumerate(trials):
        if mine.error is not None:
            sentence, detail = explain(mine.error)
            stage = "runs" if learners_frame(mine.error) else trial.stage  # else: of no use to us
            unwritten = isinstance(mine.error, NotImplementedError)
            sentence = f"With {trial.label}: {sentence}"
            yield Failure(stage, sentence, detail, unwritten, place)
            continue
        for wrong in differences(mine, right, trial.stage, trial.says):
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
    return Report(task.name, False, hint=hint, stage="runs", detail=f"what came is {found}")


def _unwritten(task: Exercise, error: NotImplementedError) -> Report:
    """Tell an untouched stub from one whose constructor is written."""
    sentence, _ = explain(error)
    constructs = inspect.isclass(task.given) and "__init__" in vars(task.given)
    began = constructs and "__init__" not in sentence
    hint = f"Well begun. {sentence}" if began else "Replace `raise NotImplementedError` by yours."
    return Report(task.name, False, hint=hint, stage="runs", attempted=began)


def _named(task: Exercise, candidate: Any, seen: Sequence[Outcome], first: Failure) -> Report:
    """Report the first thing that is wrong, under the name of the known mistake it looks like."""
    mistake, also = _looks_like(task, candidate, seen, first)
    detail = "\n".join(line for line in (first.detail, from_outside(candidate)) if line)
    if mistake is None:
        return Report(task.name, False, None, first.sentence, first.stage, detail)
    hint = f"This is what comes out when {mistake.sentence}.{also}"
    where = f"What shows first: {first.sentence}" if also else first.sentence
    detail = "\n".join(line for line in (where, detail) if line)
    return Report(task.name, False, mistake.name, hint, first.stage, detail)


def _looks_like(
    task: Exercise, candidate: Any, seen: Sequence[Outcome], first: Failure
) -> tuple[Mistake | None, str]:
    """Find the known mistake that explains the first complaint, and say whether it explains all."""
    if first.unwritten:
        return None, ""
    known = [
        m for m in known_mistakes(task.name) if alike(seen[first.trial], _seen_of(m, first.trial))
    ]
    shared = {mistake: _likeness(seen, mistake) for mistake in known}
    whole = [mistake for mistake in shared if shared[mistake] == WHOLLY]
    text = text_of(candidate)
    told = [m for m in whole if m.tells and re.search(m.tells, text, re.M)]
    for mistake in told + [m for m in whole if not m.tells] + whole:
        return mistake, ""
    most = max(shared, key=shared.get, default=None)
    if most is not None and shared[most] > 0:
        return most, " Something else is not right, too."
    return None, ""


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
                shared += any(differences(mine[n], wanted[n], trial.stage, ""))
        elif known.error is not None or any(differences(known, wanted[n], trial.stage, "")):
            return 0
        else:
            wholly = False
    if not shared and not (errors and all(str(one) == str(other) for one, other in errors)):
        return 0
    return WHOLLY if wholly else shared


@cache
def _seen_of(mistake: Mistake, place: int) -> Outcome:
    """Try a known mistake on one trial, once per process; most differ in the first."""
    return try_out(exercise(mistake.exercise).trials[place], mistake.implementation)


@cache
def _wanted(name: str) -> list[Outcome]:
    """Compute what is right once per process; the reader's random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]):
        return [trial.wanted() for trial in exercise(name).trials]


@cache
def _catalogue() -> dict[str, Exercise]:
    """Gather the exercises of all chapters; the reader's random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]):  # some build a small model when they are read
        rooms = [import_module(f"course_lib.exercises.trials.{module}") for module in MODULES]
    return {task.name: task for room in rooms for task in room.EXERCISES}


def caught_at(mistake: Mistake) -> list[str]:
    """Return the stages at which a known mistake shows, from the coarse to the subtle."""
    task = exercise(mistake.exercise)
    seen = [_seen_of(mistake, place) for place in range(len(task.trials))]
    stages = {wrong.stage for wrong in complaints(task, seen)}
    return [stage for stage in STAGES if stage in stages]
