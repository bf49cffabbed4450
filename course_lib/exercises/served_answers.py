"""Let an answer that holds the core serve every later cell in the course's place."""

import dataclasses
import dis
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.signature_adapter import (
    NO_ORDER,
    SYNONYMS,
    _same,
    _signature,
    adapt,
    fit,
    named_like,
)
from course_lib.exercises.tied_modules import Tie, tie

EMPTY = inspect.Parameter.empty
EXACT = "float64"
CHANGED = "one of its parts was replaced"
STAGES = {"dropout_p": "dropout"} | dict.fromkeys(
    ("attention_dropout", "activation_dropout"), "dropouts"
)
OWN_STAGE = ("dropout", "tie_embeddings")  # other choices of a config are tried together


def serve(
    answer: Any, given: Any, missed: Collection[str] = (), order: Mapping[str, str] = NO_ORDER
) -> Any:
    """Make an answer that holds the core fit for every later cell.

    A call runs the course's own definition, and a line says so, if it asks for an option of a
    stage that the answer missed, if the answer raises an error, or if it gives nan. All other
    calls run the answer, kept as the attribute ``served``.

    A module that is served has the course's parts, attributes and names. Its parameters start as
    the course's do. The answer computes with the same parameters.

    Args:
        answer: A function or a class.
        given: The course's own definition.
        missed: The names of the stages that do not hold.
        order: The course's name for each of the answer's layers, where names do not decide.
    """
    fitted = adapt(answer, given, order)
    if inspect.isclass(given):
        is_module = issubclass(answer, nn.Module)
        return _served(answer, fitted, given, missed) if is_module else _built_as(answer, given)
    run = _Runner(given, missed)

    @wraps(answer)
    def served(*args: Any, **kwargs: Any) -> Any:
        """Call the answer, or the course's function."""
        more, options = _as_the_course_means(answer, given, args, kwargs)
        return run(lambda: fitted(*more, **options), given, args, kwargs)

    served.served = answer  # type: ignore[attr-defined]
    return served


def lacks_attributes(answer: Any, given: Any) -> bool:
    """Say whether a module has not all the attributes that the course's constructor sets."""

    def attributes(kind: Any) -> set[str]:
        """Read what a constructor sets."""
        code = inspect.unwrap(kind.__init__).__code__
        return {one.argval for one in dis.get_instructions(code) if one.opname == "STORE_ATTR"}

    modules = inspect.isclass(given) and issubclass(given, nn.Module)
    return modules and not attributes(given) <= attributes(answer)


def _built_as(answer: type, given: type) -> type:
    """Let a class that is not a module take the arguments of the course's."""

    class Served(answer):
        """Fit the arguments of the constructor."""

        served = answer

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            more, options = fit(answer, given, args, kwargs)
            super().__init__(*more, **options)

    return named_like(answer, Served)


def _served(
    answer: type[nn.Module], fitted: Any, given: type[nn.Module], missed: Collection[str]
) -> type[nn.Module]:
    """Make the subclass of the course's class that lets the answer compute."""
    run = _Runner(given, missed)

    class Served(given):  # type: ignore[misc, valid-type]
        """Hold the course's parts, and an answer that shares their parameters."""

        served = answer

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            build = lambda: _tied(self, fitted, given, args, kwargs)  # noqa: E731
            vars(self)["tie"] = run.built(build, args, kwargs)

        def __getattr__(self, name: str) -> Any:
            """Find what the course's class lacks in the answer."""
            try:
                return super().__getattr__(name)
            except AttributeError:
                if vars(self).get("tie") is None or name.startswith("__"):
                    raise
                return getattr(self.tie.answer, name)

        def _apply(self, fn: Callable, recurse: bool = True) -> Any:
            """Move and convert the answer's own buffers, too."""
            super()._apply(fn, recurse)
            if self.tie and self.tie.renewed(self):
                self.tie.answer._apply(fn, recurse)
            return self

    for name, method in inspect.getmembers(given, inspect.isfunction):
        own = name in vars(given) and not name.startswith("_") and hasattr(answer, name)
        if own:
            setattr(Served, name, _delegating(Served, fitted, method, run))
    return named_like(answer, Served)


def _tied(
    course: nn.Module, fitted: Any, given: type[nn.Module], args: tuple, kwargs: dict[str, Any]
) -> Tie:
    """Build the answer, and tie it to the course's module."""
    more, options = _as_the_course_means(fitted.__base__, given, args, kwargs)
    with torch.random.fork_rng(devices=[]):
        return tie(course, fitted(*more, **options))


def _delegating(served: type, fitted: Any, course: Callable[..., Any], run: "_Runner") -> Callable:
    """Make a method that calls the answer's, or the course's of the same name."""
    name = course.__name__

    @wraps(course)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the answer's method on the parameters of today."""
        tie = self.tie
        if tie is None or _other_methods(self, served) - {name}:
            return course(self, *args, **kwargs)

        def call() -> Any:
            """Bring the answer up to date, and call it."""
            if not tie.renewed(self):
                raise RuntimeError(CHANGED)
            mine = getattr(fitted, name)
            more, options = fit(mine, course, args, kwargs, method=True)
            return mine(tie.answer, *more, **options)

        return run(call, course, (self, *args), kwargs)

    return method


def _other_methods(module: nn.Module, served: type) -> set[str]:
    """Name the methods of a served class that a subclass has replaced; an answer knows them not."""
    kinds = type(module).__mro__[: type(module).__mro__.index(served)]
    methods = {name for name, member in vars(served).items() if hasattr(member, "__wrapped__")}
    return {name for kind in kinds for name in vars(kind)} & methods


class _Runner:
    """Run an answer, or the course's definition, and say once why."""

    def __init__(self, given: Any, missed: Collection[str]) -> None:
        self.given, self.missed = given, missed
        self.lacking = set(re.findall(r"\w+", " ".join(missed)))
        self.lacking |= {"dropouts"} if "dropout" in self.lacking else set()
        self.said: set[str] = set()

    def __call__(
        self, call: Callable[[], Any], course: Callable[..., Any], args: tuple, kwargs: dict
    ) -> Any:
        """Return what a call gives, or what the course's function does."""
        result, why = self.tried(call, course, args, kwargs)
        if not why:
            return result
        right = course(*args, **kwargs)
        self.say(course, args, kwargs, why)
        return right

    def built(self, build: Callable[[], Any], args: tuple, kwargs: dict) -> Any:
        """Build an answer, or nothing where the course's class has to do."""
        tie, why = self.tried(build, self.given, args, kwargs)
        if why:
            self.say(self.given, args, kwargs, why)
        return tie

    def tried(
        self, call: Callable[[], Any], course: Callable[..., Any], args: tuple, kwargs: dict
    ) -> tuple[Any, str]:
        """Return a result, or why the course's definition has to run."""
        if self.lacking.intersection(_options(course, args, kwargs).values()):
            return None, f"without {', '.join(self.missed)}"
        try:
            result = call()
        except Exception as error:  # whatever an answer raises beyond its core
            return None, str(error) or type(error).__name__
        found = result if isinstance(result, tuple) else (result,)
        return (None, "nan") if any(map(_has_nan, found)) else (result, "")

    def say(self, course: Callable[..., Any], args: tuple, kwargs: dict, why: str) -> None:
        """Say that the course's own runs, and why; the same words only once."""
        options = _options(course, args, kwargs)
        asked = [words for words, stage in options.items() if stage in self.lacking]
        asked = asked or [words for words in options if words != EXACT]
        start = f"With {', '.join(asked)}" if asked else "Here"
        words = f"{start} the course's own {self.given.__name__} runs."
        if f"{words} {why}" not in self.said:
            self.said.add(f"{words} {why}")
            print(f"{words} Yours: {why}")


def _has_nan(result: Any) -> bool:
    """Look for nan in numbers; the meta device has none."""
    is_number = isinstance(result, Tensor) and result.is_floating_point() and not result.is_meta
    return is_number and bool(result.isnan().any())


def _as_the_course_means(
    answer: Any, given: Any, args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    """Give an answer the course's defaults, and no device that is the usual one anyway."""
    mine, theirs = _signature(answer), _signature(given)
    try:
        bound = theirs.bind(*args, **kwargs)
    except (TypeError, AttributeError):
        return args, kwargs
    usual = {}
    for name, parameter in theirs.parameters.items():
        names = (name, *SYNONYMS.get(name, ()))
        known = [mine.parameters[n].default for n in names if n in mine.parameters]
        others = [default for default in known if isinstance(default, int | float)]
        if name not in bound.arguments and others and isinstance(parameter.default, int | float):
            usual[name] = parameter.default
    device = bound.arguments.get("device")
    if device is not None and "device" not in mine.parameters:
        if torch.device(device) == torch.get_default_device():
            del bound.arguments["device"]
    return bound.args, bound.kwargs | usual


def _options(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> dict[str, str]:
    """Return what a call asks for beyond the core: in words, with the name in a check's stages.

    A mask belongs to the core, but for one that hides all from somebody: a fully masked row.
    Numbers in float64 are compared to their last digits, so they ask for the course's ``eps``.
    """
    signature = _signature(function)
    try:
        bound = signature.bind(*args, **kwargs).arguments  # type: ignore[union-attr]
    except (TypeError, AttributeError):
        return {}
    asked: dict[str, str] = {}
    for name, value in bound.items():
        default = signature.parameters[name].default  # type: ignore[union-attr]
        if isinstance(value, Tensor) and name.endswith("mask"):
            if not value.is_meta and not value.any(dim=-1).all():
                asked["a fully masked row"] = "row"
        elif name == "config" and dataclasses.is_dataclass(value):
            asked |= _options_of(value)
        elif default is not EMPTY and not _same(value, default):
            asked[name] = STAGES.get(name, name)
        elif isinstance(value, Tensor) and value.dtype == torch.float64:
            asked[EXACT] = "eps"
    return asked


def _options_of(config: Any) -> dict[str, str]:
    """Return the choices of a config that are not at their default; sizes are no choices."""
    asked = {}
    for field in dataclasses.fields(config):
        usual = 0.0 if field.name == "dropout" else field.default
        if isinstance(usual, bool | str | float | None) and getattr(config, field.name) != usual:
            asked[field.name] = field.name if field.name in OWN_STAGE else "options"
    return asked
