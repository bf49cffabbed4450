"""Ways to try a candidate: on which inputs, and what is right, computed another way."""

import re
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.outcomes import Outcome

SIZES = B, H, T, S, D_K, D_V = 2, 3, 4, 5, 6, 7  # no two are equal: no two axes can be swapped


@dataclass(frozen=True)
class Trial:
    """Try a candidate once.

    Args:
        label: What is special about it; completes "with …".
        act: Tries a candidate; whatever it raises is caught by ``try_out``.
        wanted: What should be seen, computed another way than the expected solution.
        stage: Where a wrong value is counted, one of ``STAGES``.
        says: What a wrong value means here, in a sentence.
    """

    label: str
    act: Callable[[Any], Outcome]
    wanted: Callable[[], Outcome]
    stage: str = "equality"
    says: str = ""

    @property
    def kind(self):
        return self.stage


def try_out(case: Trial, candidate: Any) -> Outcome:
    """Try a candidate, the same way every time, and catch what it raises."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)  # torch.manual_seed tells every device, slowly
        try:
            return case.act(candidate)
        except (Exception, SystemExit) as error:  # whatever it raises is part of what is seen
            return Outcome(error=error)


def normal(name: str, *shape: int) -> Tensor:
    """Draw standard normal numbers that depend on the name only."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(shape, generator=generator)


def function_trial(
    label: str,
    inputs: Mapping[str, Any],
    reference: Callable[..., Any],
    names: Sequence[str] = ("output",),
    *,
    options: Mapping[str, Any] | None = None,
    stage: str = "equality",
    says: str = "",
) -> Trial:
    """Call a function, inputs by place and options by name; look at results and gradients.

    Args:
        label: What is special about it.
        inputs: By name, in the order of the signature.
        reference: Called in the same way; returns what is right.
        names: How the results are called, one for each thing returned.
        options: Arguments given by name.
        stage: Where a wrong value is counted.
        says: What a wrong value means here.
    """

    def act(candidate: Callable[..., Any]) -> Outcome:
        """Call it on copies, and look for changes afterwards."""
        return observe(lambda given: candidate(*given.values(), **(options or {})), inputs, names)

    return Trial(label, act, lambda: act(reference), stage, says)


def module_trial(
    label: str,
    given: Callable[..., nn.Module],
    build: Mapping[str, Any],
    inputs: Mapping[str, Any],
    reference: Callable[..., Any],
    names: Sequence[str] = ("output",),
    *,
    options: Mapping[str, Any] | None = None,
    training: bool = False,
    stage: str = "equality",
    says: str = "",
) -> Trial:
    """Build a module, fill it with known numbers, call it; look at results and gradients.

    Args:
        label: What is special about it.
        given: The course's class; it tells the names and shapes of the parameters.
        build: Arguments of the constructor, by name.
        inputs: By name, in the order of ``forward``'s signature.
        reference: Called with a dict of all parameters, then as ``forward``.
        names: How the results are called.
        options: Arguments of ``forward`` given by name.
        training: Whether it is called in training mode.
        stage: Where a wrong value is counted.
        says: What a wrong value means here.
    """
    options = options or {}

    def act(candidate: Callable[..., nn.Module]) -> Outcome:
        """Build, fill, call."""
        module = filled(candidate(**build)).train(training)
        named = by_name(module)
        return observe(lambda now: module(*now.values(), **options), inputs, names, named)

    def wanted() -> Outcome:
        """Compute what is right from the same numbers."""
        named = by_name(filled(given(**build)))
        return observe(lambda now: reference(named, *now.values(), **options), inputs, names, named)

    return Trial(label, act, wanted, stage, says)


def parameters_trial(given: Callable[..., nn.Module], build: Mapping[str, Any], says: str) -> Trial:
    """Compare the names, shapes and sharing of all parameters with the course's class.

    Args:
        given: The course's class.
        build: Arguments of the constructor, by name.
        says: What to look at when something is missing.
    """

    def act(candidate: Callable[..., nn.Module]) -> Outcome:
        """List what the module registers."""
        module = candidate(**build)
        if not isinstance(module, nn.Module):
            raise TypeError(f"the class should be an nn.Module, {type(module).__name__} is none")
        return Outcome(census(module))

    return Trial("its parameters", act, lambda: act(given), "parameters", says)


def value_trial(
    label: str,
    act: Callable[[Any], Mapping[str, Any]],
    wanted: Mapping[str, Any],
    *,
    stage: str = "property",
    says: str = "",
) -> Trial:
    """Derive some named values from a candidate that are known beforehand.

    Args:
        label: What is special about it.
        act: Tries a candidate and returns the values.
        wanted: The right ones.
        stage: Where a wrong value is counted.
        says: What a wrong value means here.
    """

    def tried(candidate: Any) -> Outcome:
        """Derive the values of one candidate."""
        return Outcome(dict(act(candidate)))

    return Trial(label, tried, lambda: Outcome(dict(wanted)), stage, says)


def refuses(candidate: Callable[..., Any], *args: Any, words: Sequence[Any] = (), **kwargs: Any):
    """Return what became of a bad call: a ``ValueError`` that holds all the words is right."""
    try:
        candidate(*args, **kwargs)
    except NotImplementedError:
        raise
    except ValueError as error:
        said = re.sub(r"torch\.Size\(\[([\d, ]*)\]\)", lambda m: str(_sizes(m[1])), str(error))
        lost = [str(word) for word in words if str(word) not in said]
        return f"a ValueError that does not say {', '.join(lost)}" if lost else "a ValueError"
    except Exception as error:
        return f"a {type(error).__name__}: {error}"
    return "no error"


def _sizes(text: str) -> tuple[int, ...]:
    """Read the sizes in ``torch.Size([2, 3])``."""
    return tuple(int(size) for size in text.split(",") if size.strip())


def observe(
    call: Callable[[dict[str, Any]], Any],
    inputs: Mapping[str, Any],
    names: Sequence[str],
    parameters: Mapping[str, Tensor] | None = None,
) -> Outcome:
    """Call something on copies of the inputs; keep results, gradients and changes.

    Args:
        call: Gets the copies, by name.
        inputs: Tensors and other values, by name.
        names: How the results are called; a tuple is given one name for each.
        parameters: Whose gradients are looked at, beside those of the inputs.
    """
    leaf = {
        name: x.detach().clone().requires_grad_()
        for name, x in inputs.items()
        if isinstance(x, Tensor) and x.is_floating_point()
    }
    copies = {
        name: leaf[name].clone() if name in leaf else x.clone() if isinstance(x, Tensor) else x
        for name, x in inputs.items()
    }
    values = named_results(call(copies), names)
    changed = tuple(
        name
        for name, x in inputs.items()
        if isinstance(x, Tensor) and not torch.equal(copies[name].detach(), x)
    )
    gradients = backward(values, {**leaf, **(parameters or {})})
    shown = {name: x.detach() if isinstance(x, Tensor) else x for name, x in values.items()}
    return Outcome(shown, gradients, changed)


def named_results(result: Any, names: Sequence[str]) -> dict[str, Any]:
    """Give every result its name; keep a result of another form as it is."""
    if len(names) == 1:
        return {names[0]: result}
    if isinstance(result, tuple | list) and len(result) == len(names):
        return dict(zip(names, result, strict=True))
    return {"returned": result}


def backward(values: Mapping[str, Any], leaf: Mapping[str, Tensor]) -> dict[str, Any]:
    """Send a gradient back from all results at once; no symmetry hides in its direction."""
    total = 0
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


def old_filled(module: nn.Module) -> nn.Module:
    """Fill every parameter with numbers that depend on its name only; gains vary around 1."""
    with torch.no_grad():
        for name, parameter in by_name(module).items():
            gain = name.endswith("weight") and parameter.dim() == 1
            parameter.copy_(0.3 * normal(name, *parameter.shape) + gain)
    return module


from course_lib.exercises.trial import by_name, census, filled


def old_by_name(module: nn.Module) -> dict[str, nn.Parameter]:
    """List every parameter once; one of several names goes by the first in the alphabet."""
    named = sorted(module.named_parameters(remove_duplicate=False), reverse=True)
    names = {id(parameter): name for name, parameter in named}
    return {name: parameter for name, parameter in named if names[id(parameter)] == name}


def old_census(module: nn.Module) -> dict[str, Any]:
    """List shapes by name, names that share one tensor, and what a saved file would hold."""
    named = sorted(module.named_parameters(remove_duplicate=False))
    names: dict[int, list[str]] = {}
    for name, parameter in named:
        names.setdefault(id(parameter), []).append(name)
    return {
        "shapes": {name: tuple(parameter.shape) for name, parameter in named},
        "shared": sorted(" = ".join(group) for group in names.values() if group[1:]),
        "saved": sorted(module.state_dict()),
    }
