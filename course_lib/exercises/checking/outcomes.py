"""The outcome of a trial, and the comparison of two outcomes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

KINDS = (
    "runs",
    "parameters",
    "shape",
    "finite",
    "unchanged",
    "property",
    "equality",
    "gradients",
    "train and eval",
)
ALONE = "A single tensor is returned where the caller expects a pair"
RTOL, ATOL = 1e-3, 1e-4  # float32, and far below what any mistake changes


@dataclass(frozen=True)
class Outcome:
    """Everything that was observed in a trial.

    Args:
        values: Results by name: tensors, numbers, strings, and dicts and lists of them.
        gradients: Gradients by the name of the input or parameter; ``None`` if there is none.
        changed: Names of the inputs that the call changed.
        error: The exception, if there was one.
        alone: Whether a single tensor was returned where a pair was expected.
    """

    values: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    error: BaseException | None = None
    alone: bool = False


@dataclass(frozen=True)
class Failure:
    """A failed comparison: its kind, a sentence about it, and the numbers behind it."""

    kind: str
    sentence: str
    detail: str = ""
    unwritten: bool = False
    trial: int = -1
    alone: bool = False


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Walk through dicts, lists and tuples; yield every leaf and empty list with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}, {key}" if path else str(key))
    elif isinstance(value, list | tuple) and value:
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{place}]")
    else:
        yield path, value


def close(one: object, other: object) -> bool:
    """Compare two leaves: tensors and floats up to rounding, everything else exactly."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.is_floating_point():
            return torch.allclose(one.double(), other.double(), RTOL, ATOL, equal_nan=True)
        return torch.equal(one, other)
    if isinstance(one, float) and isinstance(other, float | int):
        return torch.allclose(torch.tensor(one), torch.tensor(float(other)), RTOL, ATOL, True)
    return type(one) is type(other) and one == other


def alike(mine: Outcome, right: Outcome) -> bool:
    """Return whether two calls gave the same values, gradients and changes, or both failed.

    If ``mine`` has a single tensor instead of a pair, we compare it with the pair's first element.
    """
    if (mine.error is None) != (right.error is None) or mine.changed != right.changed:
        return False
    pairs = [(mine.values, right.values), (mine.gradients, right.gradients)]
    if mine.alone and not right.alone:
        pairs = [(mine.values, {name: right.values.get(name) for name in mine.values})]
    for one, other in pairs:
        first, second = dict(leaves(one)), dict(leaves(other))
        if first.keys() != second.keys() or not all(close(first[k], second[k]) for k in first):
            return False
    return True


def differences(seen: Outcome, wanted: Outcome, kind: str, says: str) -> Iterator[Failure]:
    """Yield the differences between a call that raised no exception and the course's call."""
    if kind == "parameters" and "shapes" in wanted.values:
        yield from _wrong_parameters(seen.values, wanted.values, says)
        return
    mine, right = dict(leaves(seen.values)), dict(leaves(wanted.values))
    missing = [path for path in right if path not in mine and not seen.alone]
    if _exchanged(mine, right):
        yield Failure("shape", f"{' and '.join(right)} are returned in the wrong order.")
        return
    if missing:
        shown = ", ".join(f"{path}: {describe(value)}" for path, value in mine.items()) or "nothing"
        sentence = f"The returned values do not include {', '.join(missing)}."
        yield Failure("shape", sentence, f"returned: {shown}")
    lists = {path.rpartition("[")[0] for path in right if path.endswith("]")}
    if extra := [path for path in mine if path not in right and path.rpartition("[")[0] in lists]:
        yield Failure("shape", f"There are too many entries: {describe(', '.join(extra))}.")
    wrong = [
        complaint
        for path in right
        if path in mine
        for complaint in _wrong_leaf(path, mine[path], right[path], kind, says)
    ]
    yield from wrong
    if seen.alone:
        yield Failure("shape", f"{ALONE}; return two things, the output first.", alone=True)
    if seen.changed:
        names = ", ".join(seen.changed)
        yield Failure("unchanged", f"The call changes its arguments: {names}.", "")
    for path, gradient in () if wrong or missing or seen.alone else wanted.gradients.items():
        yield from _wrong_gradient(path, seen.gradients.get(path), gradient)


def _exchanged(mine: dict, right: dict) -> bool:
    """Return whether two tensors were returned in the wrong order."""
    if len(right) != 2 or mine.keys() != right.keys():
        return False
    shapes, expected = ([getattr(x, "shape", None) for x in y.values()] for y in (mine, right))
    return None not in shapes and shapes != expected and shapes == expected[::-1]


def _wrong_parameters(mine: dict, right: dict, says: str) -> Iterator[Failure]:
    """Compare the parameters of two modules; yield at most one failure."""
    ours, shapes = mine["shapes"], right["shapes"]
    missing = [f"missing: {name} {shape}" for name, shape in shapes.items() if name not in ours]
    strange = [f"not expected: {name} {ours[name]}" for name in ours if name not in shapes]
    lines = [*missing[:2], *strange[:2], *missing[2:], *strange[2:]]
    lines += [
        f"{name} has the shape {ours[name]}, expected {shape}"
        for name, shape in shapes.items()
        if ours.get(name, shape) != shape
    ]
    lines += [f"shared, but should not be: {x}" for x in mine["shared"] if x not in right["shared"]]
    lines += [f"should be one tensor: {x}" for x in right["shared"] if x not in mine["shared"]]
    if not lines:
        lines += [f"saved, but need not be: {x}" for x in mine["saved"] if x not in right["saved"]]
        lines += [f"not saved: {x}" for x in right["saved"] if x not in mine["saved"]]
    if lines:
        shown = [*lines[:4], f"… and {len(lines) - 4} more"] if len(lines) > 5 else lines
        yield Failure("parameters", says, "\n".join(shown))


def _wrong_leaf(path: str, mine: object, right: object, kind: str, says: str) -> Iterator[Failure]:
    """Compare one result, checking for obvious errors first; yield at most one failure."""
    if close(mine, right):
        return
    if not isinstance(right, Tensor):
        detail = f"{path}: {describe(mine)}, expected {describe(right)}"
        yield Failure(kind, says or f"{path} is wrong.", detail)
    elif not isinstance(mine, Tensor) or mine.shape != right.shape:
        sentence = f"{path} should be {describe(right)}."
        yield Failure("shape", sentence, f"{path} is {describe(mine)}, expected {describe(right)}")
    elif mine.dtype != right.dtype:
        yield Failure("shape", f"{path} should have the dtype {right.dtype}, not {mine.dtype}.")
    elif right.isfinite().all() and not mine.isfinite().all():
        bad = int((~mine.isfinite()).sum())
        sentence = f"Some entries of {path} are nan or inf."
        yield Failure("finite", sentence, f"{bad} of {mine.numel()} entries")
    else:
        yield Failure(kind, says or f"The numbers in {path} are wrong.", largest(path, mine, right))


def _wrong_gradient(path: str, mine: Any, right: Tensor | None) -> Iterator[Failure]:
    """Compare one gradient, if there should be one; yield at most one failure."""
    if right is None:
        return
    if isinstance(mine, str):
        yield Failure("gradients", "The gradient cannot be computed.", mine)
    elif mine is None:
        if right.abs().max() > ATOL:
            sentence = f"No gradient reaches {path}, because something in your code blocks it."
            yield Failure("gradients", sentence, "look for detach, .data, item or no_grad")
    elif mine.shape != right.shape:
        sentence = f"{path} should have the shape {tuple(right.shape)}."
        yield Failure("gradients", sentence, f"its gradient has the shape {tuple(mine.shape)}")
    elif not close(mine, right):
        sentence = f"The gradient of {path} is wrong, even though the results are right."
        yield Failure("gradients", sentence, largest(f"gradient of {path}", mine, right))


def describe(value: object) -> str:
    """Describe a tensor by type and shape, and anything else by its shortened repr."""
    if isinstance(value, Tensor):
        kind = "a tensor" if value.is_floating_point() else f"a tensor of {value.dtype}"
        return f"{kind} of shape {tuple(value.shape)}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def largest(path: str, mine: Tensor, right: Tensor) -> str:
    """Describe the entry with the largest error."""
    one, other = mine.double(), right.double()
    gap = (one - other).abs().nan_to_num(torch.inf)
    gap[one.isclose(other, equal_nan=True)] = 0.0  # also where both are -inf
    place = torch.unravel_index(gap.argmax(), gap.shape)
    index = ", ".join(str(int(i)) for i in place)
    values = [float(x[place].detach()) for x in (mine, right)]
    where = f"{path}[{index}]" if index else path
    return f"largest error: {where} is {values[0]:.4g}, expected {values[1]:.4g}"
