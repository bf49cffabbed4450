"""Decide whether later cells can run an answer in place of the course's definition."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from course_lib.exercises.checking.exercise import INPUT_CHECKS, Exercise, find_exercise
from course_lib.exercises.checking.outcomes import Outcome
from course_lib.exercises.checking.report import Report
from course_lib.exercises.checking.signatures import fit, same_value, signature_of
from course_lib.exercises.checking.trial import Trial, try_out

EMPTY = inspect.Parameter.empty
WEIGHTS = "the course's initial weights, which also depend on the order of the layers"


def lacking(report: Report, answer: Any) -> str:
    """List what an answer that passed lacks before later cells run it; empty if nothing.

    Later cells run an answer that has the course's signatures and passes all extras, except for the
    input checks and half precision, because chapters compute in float32. A class also needs the
    course's attributes and, if it is a module, its parameters and initial weights.
    """
    exercise = find_exercise(report.name)
    names: list[str] = []
    weights = False
    if inspect.isclass(exercise.definition):
        trial = _parts(exercise)
        mine, course = (try_out(trial, kind).values for kind in (answer, exercise.definition))
        names = _outermost(course["names"] - mine.get("names", set()))
        weights = not names and course["weights"] != mine.get("weights")
    lacks = [f"the signature `{text}`" for text in _signatures(answer, exercise.definition)]
    noun = "attribute" if len(names) == 1 else "attributes"
    lacks += [f"the {noun} {', '.join(f'`{name}`' for name in names)}"] * bool(names)
    apart = {INPUT_CHECKS, "half precision", *["names"] * bool(names)}
    extras = [stage for stage in report.missed if stage not in apart]
    lacks += [f"the open extras ({' · '.join(extras)})"] * bool(extras)
    lacks += [WEIGHTS] * weights
    return " and ".join(lacks)


def _signatures(answer: Any, definition: Any) -> Iterator[str]:
    """Yield the course's signatures of a function, or of a class and its methods, that differ."""
    if not _same_signature(answer, definition):
        yield _shown(definition)
    if inspect.isclass(definition):
        for name, method in vars(definition).items():
            if inspect.isfunction(method) and not name.startswith("_") and hasattr(answer, name):
                if not _same_signature(getattr(answer, name), method, method=True):
                    yield _shown(method, method=True)


def _same_signature(answer: Any, definition: Any, method: bool = False) -> bool:
    """Return whether each call that fits the definition means the same to the answer."""
    mine, course = (_parameters(function, method) for function in (answer, definition))
    optional = all(one.default is not EMPTY for one in mine[len(course) :])
    return len(mine) >= len(course) and optional and all(map(_same_parameter, mine, course))


def _parameters(function: Any, method: bool) -> list[inspect.Parameter]:
    """List the parameters of a function, without annotations; none if Python cannot find them."""
    signature = signature_of(function, method)
    found = signature.parameters.values() if signature else ()
    return [parameter.replace(annotation=EMPTY) for parameter in found]


def _same_parameter(mine: inspect.Parameter, course: inspect.Parameter) -> bool:
    """Return whether two parameters have the same name, the same default and a fitting kind."""
    named = mine.name == course.name and mine.kind in (course.kind, mine.POSITIONAL_OR_KEYWORD)
    return named and (
        course.default is EMPTY
        or same_value(mine.default, course.default)
        or _text(mine) == _text(course)
    )


def _shown(definition: Any, method: bool = False) -> str:
    """Show a definition's name and signature without annotations."""
    return f"{definition.__name__}{_text(inspect.Signature(_parameters(definition, method)))}"


def _text(thing: object) -> str:
    """Write a parameter or a signature as code, with the names of functions."""
    return re.sub(r"<function (\S+) at \w+>", r"\1", str(thing))


def _parts(exercise: Exercise) -> Trial:
    """Return a trial that lists a class's attributes, parts and initial weights.

    It builds the class like the first trial of the exercise that builds one.
    """
    calls: list[tuple[tuple, dict[str, Any]]] = []

    def record(*args: Any, **kwargs: Any) -> Any:
        """Build the course's class, and record the arguments."""
        calls.append((args, kwargs))
        return exercise.definition(*args, **kwargs)

    for trial in exercise.trials:
        if not calls:
            try_out(trial, record)

    def measure(kind: Callable[..., Any]) -> Outcome:
        """Build an answer or the course's class."""
        args, kwargs = fit(kind, exercise.definition, *calls[0])
        made = kind(*args, **kwargs)
        names, weights = set(dir(made)), []
        if isinstance(made, nn.Module):
            names |= {name for name, _ in made.named_modules()} | made.state_dict().keys()
            weights = [(name, x.tolist()) for name, x in made.state_dict().items()]
        return Outcome({"names": {n for n in names if n[:1] not in ("", "_")}, "weights": weights})

    return Trial("its parts", measure)


def _outermost(names: set[str]) -> list[str]:
    """Sort names, and leave out those inside another one."""
    return sorted(n for n in names if not any(n.startswith(f"{other}.") for other in names))
