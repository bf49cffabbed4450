"""Trials that compare a candidate with the course's definition."""

import math
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from course_lib.exercises.checking.outcomes import Outcome
from course_lib.exercises.checking.signatures import MissingOption

SIZES = B, H, T, S, D_K, D_V = 2, 3, 4, 5, 6, 7  # all differ, so no two axes can be swapped
PASSED_ON = "Does every part that needs this option get it?"  # says of a trial with an option
Filled = TypeVar("Filled", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Trial:
    """One test of a candidate.

    Args:
        label: What is special about the trial; completes "With …".
        measure: Runs the trial on a candidate; ``try_out`` catches any exception.
        kind: How a wrong value is reported; one of ``KINDS``.
        says: A sentence that explains what a wrong value means here.
    """

    label: str
    measure: Callable[[Any], Outcome]
    kind: str = "equality"
    says: str = ""


@contextmanager
def usual_settings() -> Iterator[None]:
    """Use float32 and the CPU, and enable gradients, whatever the notebook or answer has set."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    on_cpu = torch.get_default_device().type == "cpu"  # entering a device context slows every call
    try:
        with torch.inference_mode(False), nullcontext() if on_cpu else torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(dtype)


def try_out(trial: Trial, candidate: object) -> Outcome:
    """Run a trial with fixed settings, and catch what the candidate raises."""
    with usual_settings(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)  # torch.manual_seed also seeds every device, slowly
        try:
            return trial.measure(candidate)
        except (Exception, SystemExit) as error:  # part of what the trial shows
            return Outcome(error=error)


def normal(name: str, *shape: int) -> Tensor:
    """Sample standard normal numbers with a seed that depends only on the name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(shape, generator=generator)


def function_trial(
    label: str,
    inputs: Mapping[str, Any],
    names: Sequence[str | None] = ("output",),
    *,
    options: Mapping[str, Any] | None = None,
    kind: str = "equality",
    says: str = "",
) -> Trial:
    """Call a function with inputs by position and options by name; compare results and gradients.

    ``names`` are the names of the returned values; ``None`` means that a value is not compared.
    """

    def measure(candidate: Callable[..., Any]) -> Outcome:
        return observe(lambda args: candidate(*args.values(), **(options or {})), inputs, names)

    return Trial(label, measure, kind, says)


def module_trial(
    label: str,
    build: Mapping[str, Any],
    inputs: Mapping[str, Any],
    names: Sequence[str | None] = ("output",),
    *,
    options: Mapping[str, Any] | None = None,
    training: bool = False,
    kind: str = "equality",
    says: str = "",
) -> Trial:
    """Build a module from ``build``, fill it with known numbers, and call it like a function."""

    def measure(candidate: Callable[..., nn.Module]) -> Outcome:
        module = filled(candidate(**build)).train(training)
        call = lambda now: module(*now.values(), **(options or {}))  # noqa: E731
        return observe(call, inputs, names, by_name(module))

    return Trial(label, measure, kind, says)


def outputs_only(trial: Trial) -> Trial:
    """Run a trial without gradients, because large scores magnify their rounding errors."""
    return replace(trial, measure=torch.no_grad()(trial.measure))


def parameters_trial(build: Mapping[str, Any], says: str) -> Trial:
    """Compare the shapes of a module's parameters, and which are shared, but ignore their names."""

    def measure(candidate: Callable[..., nn.Module]) -> Outcome:
        module = candidate(**build)
        if not isinstance(module, nn.Module):
            raise TypeError(f"{type(module).__name__} should be a subclass of nn.Module")
        return Outcome(census(module))

    return Trial("its parameters", measure, "parameters", says)


def names_trial(build: Mapping[str, Any]) -> Trial:
    """Compare the names of all parameters with the course's; this is an extra for every module."""
    says = "The math is right. With the course's names, your module could also load saved weights."

    @as_trial("the names of its parameters", says, "parameters")
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, str]:
        named = candidate(**build).named_parameters(remove_duplicate=False)
        return {"names": ", ".join(sorted(name for name, _ in named))}

    return measure


def as_trial(
    label: str, says: str = "", kind: str = "property"
) -> Callable[[Callable[[Any], Mapping[str, Any]]], Trial]:
    """Turn the decorated function, which derives named values from a candidate, into a trial."""
    return lambda measure: Trial(
        label, lambda candidate: Outcome(dict(measure(candidate))), kind, says
    )


def errors_trial(name: str, calls: Sequence[str], names: Mapping[str, Any]) -> Trial:
    """Check that calls, given as text that follows the name, raise a ValueError."""

    @as_trial("arguments that the docstring excludes", "The docstring promises a ValueError.")
    def measure(candidate: Callable[..., Any]) -> dict[str, str]:
        known = {"math": math, "nn": nn, "torch": torch, **names, name: candidate}
        return {name + call: answer_to(partial(eval, name + call, known)) for call in calls}

    return measure


def half_precision(says: str, run: Callable[[Any, torch.dtype], Tensor]) -> Trial:
    """Compare a result in float16 with the candidate's own result in float32."""

    @as_trial("float16", says)
    def measure(candidate: Any) -> dict[str, bool]:
        half, whole = (run(candidate, dtype).detach() for dtype in (torch.float16, torch.float32))
        close = (half.float() - whole).abs().max() < 0.01 * whole.abs().max()  # nan is not
        return {"float16 gives other numbers than float32": not close}

    return measure


def answer_to(call: Callable[[], Any]) -> str:
    """Describe the exception that a call raises, or that it does not end.

    NotImplementedError is re-raised, and so is the error for a missing option.
    """
    try:
        within_steps(call)
    except (NotImplementedError, MissingOption):
        raise
    except Exception as error:  # whatever is raised is the answer
        return f"raises {type(error).__name__}"
    return "raises nothing"


def within_steps(call: Callable[[], Any], steps: int = 200_000) -> None:
    """Run a call, and raise TimeoutError when it has executed this many lines of Python."""
    executed, before = count(), sys.gettrace()

    def counted(frame: FrameType, event: str, arg: object) -> Any:
        """Count one line."""
        if next(executed) > steps:
            raise TimeoutError("the call does not end")
        return counted

    sys.settrace(counted)
    try:
        call()
    finally:
        sys.settrace(before)


def observe(
    call: Callable[[dict[str, Any]], Any],
    inputs: Mapping[str, Any],
    names: Sequence[str | None],
    parameters: Mapping[str, Tensor] | None = None,
) -> Outcome:
    """Call a function on copies of the inputs; record results, gradients, and changed inputs."""
    leaf = {
        name: x.detach().clone().requires_grad_()
        for name, x in inputs.items()
        if isinstance(x, Tensor) and x.is_floating_point()
    }
    copies = {
        name: leaf[name].clone() if name in leaf else x.clone() if isinstance(x, Tensor) else x
        for name, x in inputs.items()
    }
    values, alone = named_results(call(copies), names)
    changed = tuple(
        name
        for name, x in inputs.items()
        if isinstance(x, Tensor) and not torch.equal(copies[name].detach(), x)
    )
    gradients = backward(values, {**leaf, **(parameters or {})})
    shown = {name: x.detach() if isinstance(x, Tensor) else x for name, x in values.items()}
    return Outcome(shown, gradients, changed, alone=alone)


def named_results(result: object, names: Sequence[str | None]) -> tuple[dict[Any, Any], bool]:
    """Name every result; also return whether a single tensor was returned instead of a pair."""
    if len(names) == 1:
        return {names[0]: result}, False
    if isinstance(result, tuple | list) and len(result) == len(names):
        pairs = zip(names, result, strict=True)
        return {name: x for name, x in pairs if name is not None}, False
    if isinstance(result, Tensor):
        return {names[0]: result}, True
    return {"returned": result}, False


def backward(values: Mapping[str, Any], leaf: Mapping[str, Tensor]) -> dict[str, Any]:
    """Compute all gradients of a randomly weighted sum of the results."""
    total: Any = 0
    for name, x in values.items():
        if isinstance(x, Tensor) and x.requires_grad:
            total = total + (x * normal(f"direction of {name}", *x.shape)).sum()
    if not isinstance(total, Tensor):
        return dict.fromkeys(leaf)
    try:
        gradients = torch.autograd.grad(total, list(leaf.values()), allow_unused=True)
    except RuntimeError as error:
        return dict.fromkeys(leaf, str(error).partition("\n")[0])
    return dict(zip(leaf, gradients, strict=True))


def filled(module: Filled) -> Filled:
    """Fill what learns with numbers that depend on the parameter's name; gains are near ±1."""
    with torch.no_grad():
        for name, parameter in by_name(module).items():
            gain = name.endswith("weight") and parameter.dim() == 1
            parameter.copy_(0.3 * normal(name, *parameter.shape) + gain)
            if gain:
                parameter[0].neg_()  # a learned gain may have either sign
    return module


def by_name(module: nn.Module) -> dict[str, nn.Parameter]:
    """List every parameter once, under its alphabetically first name, unless it is frozen."""
    named = sorted((one for one in _named_parameters(module) if one[1].requires_grad), reverse=True)
    names = {id(parameter): name for name, parameter in named}
    return {name: parameter for name, parameter in named if names[id(parameter)] == name}


def census(module: nn.Module) -> dict[str, Any]:
    """List parameter shapes by name, names that share a tensor, and the names in a saved file."""
    named = sorted(_named_parameters(module))
    names: dict[int, list[str]] = {}
    for name, parameter in named:
        names.setdefault(id(parameter), []).append(name)
    renamed = vars(module).get("course_names", {})
    return {
        "shapes": {name: tuple(parameter.shape) for name, parameter in named},
        "shared": sorted(" = ".join(group) for group in names.values() if group[1:]),
        "saved": sorted(renamed.get(name, name) for name in module.state_dict()),
    }


def _named_parameters(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """List all parameters, under the course's names if ``recognize`` found them."""
    renamed = vars(module).get("course_names", {})
    named = module.named_parameters(remove_duplicate=False)
    return [(renamed.get(name, name), parameter) for name, parameter in named]
