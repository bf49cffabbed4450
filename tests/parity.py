"""Comparisons of the outputs and gradients of two modules."""

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import torch
from random_inputs import make_generator, normal
from torch import Tensor, nn

from course_lib.interop import grad_pairs

MISTAKE_DETECTION = Path(__file__).resolve().parents[1] / "figures" / "mistake_detection.md"
EXACT = dict(rtol=0.0, atol=1e-10)  # float64


def trace(
    function: Callable[..., Tensor | tuple],
    inputs: Iterable[Tensor],
    module: nn.Module | None = None,
) -> dict:
    """Run forward and backward; return the outputs, and the gradients of inputs and parameters."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    if module is not None:
        module.zero_grad()
    outputs = function(*leaves)
    outputs = [outputs] if isinstance(outputs, Tensor) else [o for o in outputs if o is not None]
    direction = make_generator(11)  # a loss without symmetries that could hide a difference
    loss = sum((o * normal(direction, *o.shape, dtype=o.dtype)).sum() for o in outputs)
    loss.backward()
    named = () if module is None else module.named_parameters()
    return {
        "outputs": [o.detach() for o in outputs],
        "inputs": [x.grad for x in leaves],
        "parameters": {name: p.grad.clone() for name, p in named if p.grad is not None},
    }


def assert_equal(actual, expected) -> None:
    """Assert that tensors, or lists or dictionaries of tensors, agree in float64 to 1e-10."""
    torch.testing.assert_close(actual, expected, **EXACT)


def assert_parity(
    ours: nn.Module,
    theirs: nn.Module,
    run_ours: Callable[..., Tensor | tuple],
    run_theirs: Callable[..., Tensor | tuple],
    inputs: Iterable[Tensor],
    stack: nn.Module | None = None,
) -> None:
    """Assert that outputs and the gradients of all inputs and parameters agree with torch's.

    Inputs that are our own parameters, such as embeddings, are passed only to torch; if one occurs
    twice, our gradient is the sum of torch's two. ``stack`` is the part of ours that torch has.
    """
    own = {id(parameter) for parameter in ours.parameters()}
    tables = [x for x in inputs if id(x) in own]
    mine = trace(run_ours, [] if tables else inputs, ours)
    other = trace(run_theirs, inputs, theirs)
    assert_equal(mine["outputs"], other["outputs"])
    if tables:
        for table in tables:
            uses = zip(tables, other["inputs"], strict=True)
            assert_equal(table.grad, sum(grad for used, grad in uses if used is table))
    else:
        assert_equal(mine["inputs"], other["inputs"])
    assert mine["parameters"].keys() == dict(ours.named_parameters()).keys()
    pairs = grad_pairs(stack or ours, theirs)
    compared = {id(grad) for grad, _ in pairs} | {id(table.grad) for table in tables}
    assert compared == {id(p.grad) for p in ours.parameters()}
    assert sum(grad.numel() for _, grad in pairs) == sum(p.numel() for p in theirs.parameters())
    for mine_grad, other_grad in pairs:
        assert_equal(mine_grad, other_grad)


def assert_same(one, other):
    """Assert that two objects have the same structure and are equal to the last bit."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype and torch.equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert one == other


def overheard(module: nn.Module, names: Iterable[str], run: Callable[[], object]) -> dict:
    """Run a function, and return the last (arguments, output) of each named part."""
    heard, handles = {}, []
    for name in names:

        def listen(part, args, kwargs, output, name=name):
            heard[name] = (args, kwargs, output)

        part = module.get_submodule(name)
        handles.append(part.register_forward_hook(listen, with_kwargs=True))
    run()
    for handle in handles:
        handle.remove()
    return heard


def hooks_left(module: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules())


def says(*parts: object) -> str:
    """Match a message that contains all these words and numbers, in any order."""
    return "(?s)" + "".join(f"(?=.*{re.escape(str(part))})" for part in parts)


@cache
def recorded_kinds() -> dict[tuple[str, str], tuple[str, str]]:
    """Read from figures/mistake_detection.md which stages a mistake fails, and how it shows."""
    kinds, exercise = {}, ""
    for line in MISTAKE_DETECTION.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            exercise = line.strip("# `")
        elif line.startswith("| `"):
            cells = line.strip("| ").split(" | ")
            kinds[exercise, cells[0].strip("`")] = (cells[-2], cells[-1])
    return kinds
