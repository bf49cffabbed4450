"""Probes of the residual stream: its layers, its sub-layers and the final norm."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.probes.model_copy import copy_model
from course_lib.probes.probed_model import ROUNDING, Finding, ProbedModel, as_probe, difference

FORGOTTEN = 0.1  # a change of the logits that is too large to come from a norm's epsilon


def layers_of(model: nn.Module) -> dict[str, nn.Module]:
    """Find the layers by name: the items of an outermost ``ModuleList`` that have submodules."""
    layers: dict[str, nn.Module] = {}
    for name, group in model.named_modules():
        inside = any(f"{name}.".startswith(f"{layer}.") for layer in layers)
        if isinstance(group, nn.ModuleList) and not inside:
            parts = ((f"{name}.{place}", layer) for place, layer in group.named_children())
            layers.update((place, layer) for place, layer in parts if any(layer.children()))
    return layers


def _sublayers(layer: nn.Module) -> dict[str, list[nn.Module]]:
    """Find a layer's parts that have matrices, by name; all single linear layers form one part."""
    parts: dict[str, nn.Module] = {}
    for name, child in layer.named_children():
        inner = dict(child.named_children()) if isinstance(child, nn.ModuleList) else {"": child}
        parts |= {f"{name}.{place}".strip("."): part for place, part in inner.items()}
    sublayers: dict[str, list[nn.Module]] = {}
    for name, part in parts.items():
        if any(parameter.dim() > 1 for parameter in part.parameters()):
            alone = not any(part.children())
            sublayers.setdefault("linear layers" if alone else name, []).append(part)
    return sublayers


def _quieten(layer: nn.Module, loud: Sequence[nn.Module]) -> None:
    """Set a layer's matrices and biases to zero, except in its ``loud`` parts, which get noise.

    The gains of norms become 1, and a layer's own vectors, such as gates, become 0.5.
    """
    noisy = {id(module) for part in loud for module in part.modules()}
    for module in layer.modules():
        own = dict(module.named_parameters(recurse=False))
        has_vectors_only = all(parameter.dim() < 2 for parameter in own.values())
        gain = 0.5 if any(module.children()) else 1.0
        for kind, parameter in own.items():
            parameter.fill_(gain if has_vectors_only and "bias" not in kind else 0.0)
            if id(module) in noisy and not has_vectors_only:
                parameter.normal_(std=parameter.size(-1) ** -0.5)


def _silent_pass(probed: ProbedModel, loud: str = "") -> dict[str, tuple[Tensor, Tensor]]:
    """Set all layers' matrices to zero; return each layer's input, scaled by three, and its output.

    A layer is left out if its input is all zeros or its output has a different shape. The parts
    named ``loud`` get random weights. A layer is also left out if the input to such a part is
    all zeros, or if the part changes the shape of its input.
    """
    silent = {}
    returned: dict[str, list[torch.Size]] = {}

    def note(name: str, given: tuple, output: Any) -> None:
        """Keep the input and the output of a layer."""
        answer = _first(output)
        reads = given and isinstance(given[0], Tensor) and given[0].any()
        if reads and given[0].shape == answer.shape:
            if not loud or answer.shape in returned.get(name, []):
                silent[name] = given[0], answer

    def listen(name: str, given: tuple, more: dict, output: Any) -> None:
        """Record the shape of a loud part's output, unless its input is all zeros."""
        if any(isinstance(x, Tensor) and x.any() for x in (*given, *more.values())):
            returned.setdefault(name, []).append(getattr(_first(output), "shape", torch.Size()))

    model = copy_model(probed.model)
    torch.manual_seed(0)
    for name, layer in layers_of(model).items():
        parts = _sublayers(layer).get(loud, [])
        _quieten(layer, parts)
        for part in parts:
            hook = lambda _, *seen, name=name: listen(name, *seen)  # noqa: E731
            part.register_forward_hook(hook, with_kwargs=True)
        layer.register_forward_pre_hook(lambda _, given: _scaled(given))
        layer.register_forward_hook(lambda _, given, out, name=name: note(name, given, out))
    replace(probed, model=model).logits(*probed.batch())
    return silent


def _first(output: Any) -> Any:
    """Return a module's output, or the first item if it is a tuple."""
    return output[0] if isinstance(output, tuple | list) else output


def _passed_on(given: Tensor, answer: Tensor) -> bool:
    """Return whether an output equals the input or the normalized input."""
    widths = given.shape[-1:]
    norms = F.layer_norm(given, widths), F.rms_norm(given, widths), F.normalize(given, dim=-1)
    return any(torch.allclose(answer, x, atol=1e-2) for x in (given, *norms))


@as_probe
def residual_paths(probed: ProbedModel) -> Finding | None:
    """A layer whose matrices are zero returns its input, because each sub-layer adds to its input.

    The layer may normalize this input.
    """
    silent = _silent_pass(probed)
    lost = [name for name, pair in silent.items() if not _passed_on(*pair)]
    if lost:
        hint = f"with its matrices set to zero, {lost[0]} does not return its input"
        return False, f"{hint}: a residual path is missing, or is added twice", lost
    for part in {part for layer in layers_of(probed.model).values() for part in _sublayers(layer)}:
        alone = _silent_pass(probed, part)
        lost += [f"{part} of {name}" for name, pair in alone.items() if _passed_on(*pair)]
    if lost:
        hint = f"with all other matrices set to 0, {min(lost)} adds nothing to the layer's output"
        return False, f"{hint}: a later residual connection skips that part", sorted(lost)
    return (True, "every layer adds to its input", lost) if silent else None


@as_probe
def final_norm(probed: ProbedModel) -> Finding | None:
    """A norm follows a pre-norm stack, so scaling the stack's output does not change the logits."""
    base = probed.logits(*probed.batch())
    silent = _silent_pass(probed)
    stacks = []
    for name in {name.rpartition(".")[0]: name for name in layers_of(probed.model)}.values():
        if name in silent and difference(*silent[name]) < ROUNDING:
            stacks.append(name)
            last = probed.model.get_submodule(name)
            with last.register_forward_hook(lambda _, given, out: _scaled(out)):
                moved = difference(probed.logits(*probed.batch()), base)
            if moved > FORGOTTEN:
                hint = f"the layers up to {name} are pre-norm, but no norm follows them"
                return False, hint, moved
    return (True, "a norm follows every pre-norm stack", stacks) if stacks else None


def _scaled(values: Any) -> Any:
    """Multiply the first tensor by three, and leave everything else unchanged."""
    if isinstance(values, tuple) and values:
        return _scaled(values[0]), *values[1:]
    return 3 * values if isinstance(values, Tensor) and values.is_floating_point() else values
