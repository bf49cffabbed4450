"""Replace the course's definition in later cells with an answer that passed the core."""

import dataclasses
import dis
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.checking.signatures import (
    NO_ORDER,
    SYNONYMS,
    adapt,
    fit,
    named_like,
    same_value,
    signature_of,
)
from course_lib.exercises.library.tied_modules import Tie, tie

EMPTY = inspect.Parameter.empty
EXACT = "float64"
STAGES = {"dropout_p": "dropout"} | dict.fromkeys(
    ("attention_dropout", "activation_dropout"), "dropouts"
)
OWN_STAGE = ("dropout", "tie_embeddings")  # a config's other options are tried together


def serve(
    answer: Callable[..., Any],
    definition: Callable[..., Any],
    missed: Collection[str] = (),
    order: Mapping[str, str] = NO_ORDER,
) -> Callable[..., Any]:
    """Let an answer that passed the core replace the course's definition.

    If a call uses an option of a stage that the answer ``missed``, or if the answer raises an error
    or returns nan, the call runs the course's own definition and prints a line that says so. All
    other calls run the answer, which we store as the attribute ``served``. A served module has the
    course's parts, attributes, names and initialization, and shares its parameters with the answer.
    """
    fitted = adapt(answer, definition, order)
    run = _runner(definition, missed)
    if inspect.isclass(definition) and issubclass(definition, nn.Module):
        return _served(answer, fitted, definition, run)

    @wraps(answer)
    def served(*args: Any, **kwargs: Any) -> Any:
        """Call the answer or, if necessary, the course's function."""
        more, options = _as_the_course_means(answer, definition, args, kwargs)
        course = lambda: definition(*args, **kwargs)  # noqa: E731
        return run(lambda: fitted(*more, **options), course, _options(definition, args, kwargs))

    made: Any = fitted if inspect.isclass(definition) else served
    made.served = answer
    return made


def lacks_attributes(answer: object, definition: object) -> bool:
    """Return whether a module lacks an attribute that the course's constructor sets."""
    if not (inspect.isclass(definition) and issubclass(definition, nn.Module)):
        return False
    attributes = []
    kinds: tuple[Any, ...] = (definition, answer)
    for kind in kinds:
        steps = dis.get_instructions(inspect.unwrap(kind.__init__).__code__)
        attributes.append({step.argval for step in steps if step.opname == "STORE_ATTR"})
    return not attributes[0] <= attributes[1]


def _served(
    answer: Any, fitted: Any, definition: type[nn.Module], run: Callable[..., Any]
) -> type[nn.Module]:
    """Make a subclass of the course's class in which the answer does the computation."""

    class Served(definition):  # type: ignore[misc, valid-type]
        """A module with the course's parts, and an answer that shares their parameters."""

        served = answer

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            more, options = _as_the_course_means(answer, definition, args, kwargs)

            def build() -> Tie:
                """Tie the answer to the module without affecting later random numbers."""
                with torch.random.fork_rng(devices=[]):
                    return tie(self, fitted(*more, **options))

            self.__dict__["tie"] = run(build, lambda: None, _options(definition, args, kwargs))

        def __getattr__(self, name: str) -> Any:
            """Look in the answer for an attribute that the course's class lacks."""
            try:
                return super().__getattr__(name)
            except AttributeError:
                if vars(self).get("tie") is None or name.startswith("__"):
                    raise
                return getattr(self.tie.answer, name)

        def _apply(self, fn: Callable, recurse: bool = True) -> Any:
            """Move or convert the answer's own buffers as well."""
            super()._apply(fn, recurse)
            if self.tie and self.tie.renewed(self):
                self.tie.answer._apply(fn, recurse)
            return self

    functions = [name for name, member in vars(definition).items() if inspect.isfunction(member)]
    names = [name for name in functions if not name.startswith("_") and hasattr(answer, name)]
    for name in names:
        setattr(Served, name, _delegating(Served, fitted, getattr(definition, name), names, run))
    return named_like(answer, Served)


def _delegating(
    served: type, fitted: Any, course: Callable, names: Collection[str], run: Callable[..., Any]
) -> Callable:
    """Make a method that calls the answer's method or, if necessary, the course's."""
    name = course.__name__
    others = [other for other in names if other != name]

    @wraps(course)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the answer's method with the current parameters."""
        replaced = any(getattr(type(self), n) is not getattr(served, n) for n in others)
        if self.tie is None or replaced:  # an answer does not know the methods of a subclass
            return course(self, *args, **kwargs)

        def call() -> Any:
            """Update the answer's parts, and call its method."""
            if not self.tie.renewed(self):
                raise RuntimeError("one of its parts was replaced")
            mine = getattr(fitted, name)
            more, options = fit(mine, course, args, kwargs, method=True)
            return mine(self.tie.answer, *more, **options)

        asked = _options(course, (self, *args), kwargs)
        return run(call, lambda: course(self, *args, **kwargs), asked)

    return method


def _runner(definition: Any, missed: Collection[str]) -> Callable[..., Any]:
    """Return a function that runs an answer, or prints why not and runs the course's definition."""
    stages = set(re.findall(r"\w+", " ".join(missed)))
    stages |= {"dropouts"} if "dropout" in stages else set()
    printed: set[str] = set()

    def run(call: Callable[[], Any], course: Callable[[], Any], asked: Mapping[str, str]) -> Any:
        """Return the answer's result or, if it cannot be used, the course's."""
        lacking = [option for option, stage in asked.items() if stage in stages]
        why = f"without {', '.join(missed)}"
        if not lacking:
            try:
                result = call()
            except Exception as error:  # whatever an answer raises beyond its core
                why = str(error) or type(error).__name__
            else:
                results = result if isinstance(result, tuple) else (result,)
                if not any(map(_has_nan, results)):
                    return result
                why = "nan"
        right = course()
        options = ", ".join(lacking or [option for option in asked if option != EXACT])
        start = f"With {options}," if options else "Here,"
        line = f"{start} the course's own {definition.__name__} runs. Yours: {why}"
        if line not in printed:
            printed.add(line)
            print(line)
        return right

    return run


def _has_nan(result: Any) -> bool:
    """Return whether a result contains nan; on the meta device, there are no numbers."""
    is_number = isinstance(result, Tensor) and result.is_floating_point() and not result.is_meta
    return is_number and bool(result.isnan().any())


def _as_the_course_means(
    answer: Any, definition: Any, args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    """Add the course's defaults to a call, and leave out a device that is already the default."""
    mine, course = signature_of(answer), signature_of(definition)
    if mine is None or course is None:
        return args, kwargs
    try:
        bound = course.bind(*args, **kwargs)
    except TypeError:
        return args, kwargs
    usual = {}
    for name in course.parameters.keys() - bound.arguments.keys():
        default = course.parameters[name].default
        names = mine.parameters.keys() & {name, *SYNONYMS.get(name, ())}
        if names and isinstance(default, int | float):
            usual[name] = default
    device = bound.arguments.get("device")
    if device is not None and "device" not in mine.parameters:
        if torch.device(device) == torch.get_default_device():
            del bound.arguments["device"]
    return bound.args, bound.kwargs | usual


def _options(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> dict[str, str]:
    """Map a call's options beyond the core to the stages that check them.

    A mask belongs to the core unless it hides every key from a query (a fully masked row).
    Numbers in float64 are compared down to the last digit, so they need the course's ``eps``.
    """
    signature = signature_of(function)
    if signature is None:
        return {}
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return {}
    asked: dict[str, str] = {}
    for name, value in bound.items():
        default = signature.parameters[name].default
        if isinstance(value, Tensor) and name.endswith("mask"):
            if not value.is_meta and not value.any(dim=-1).all():
                asked["a fully masked row"] = "row"
        elif name == "config" and dataclasses.is_dataclass(value):
            asked |= _options_of(value)
        elif default is not EMPTY and not same_value(value, default):
            asked[name] = STAGES.get(name, name)
        elif isinstance(value, Tensor) and value.dtype == torch.float64:
            asked[EXACT] = "eps"
    return asked


def _options_of(config: Any) -> dict[str, str]:
    """Map a config's non-default options, except for sizes, to the stages that check them."""
    asked = {}
    for field in dataclasses.fields(config):
        usual = 0.0 if field.name == "dropout" else field.default
        if isinstance(usual, bool | str | float | None) and getattr(config, field.name) != usual:
            asked[field.name] = field.name if field.name in OWN_STAGE else "options"
    return asked
