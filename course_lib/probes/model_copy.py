"""Copies of a model that a probe may change without changing the original."""

import copy
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

HALF = (torch.float16, torch.bfloat16)
NUDGE = 0.1  # the scale of the noise that replaces zeros
GATE = 0.5  # the smallest scale of vectors, such as gates, in an amplified model


def copy_model(model: nn.Module) -> nn.Module:
    """Copy a model, including functions in its attributes if they use parts of the model.

    16-bit parameters become float32. Tensors that an earlier forward pass left in the model are
    copied without their autograd history.

    Raises:
        ValueError: If an attribute of the model cannot be copied.
    """
    copies: dict[int, Any] = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, Tensor) and not value.is_leaf:
                copies[id(value)] = value.detach().clone()
    try:
        copied = copy.deepcopy(model, copies)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"the probes need a copy, but copying failed: {error}") from error
    for module in copied.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value.__closure__:
                vars(module)[name] = _copy_closure(value, copies)
    for parameter in copied.parameters():
        if parameter.dtype in HALF:
            parameter.data = parameter.data.float()
    return copied


def _copy_closure(function: FunctionType, copies: dict[int, Any]) -> FunctionType:
    """Rebuild a function around copies of the values that it captured."""
    cells = [CellType(copy.deepcopy(c.cell_contents, copies)) for c in function.__closure__ or ()]
    name, defaults = function.__name__, function.__defaults__
    rebuilt = FunctionType(function.__code__, function.__globals__, name, defaults, tuple(cells))
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    return rebuilt


def runs_original(model: nn.Module, run: Callable[[], object]) -> bool:
    """Return whether a call that should run only a copy also runs a part of the original model."""
    originals = {id(module) for module in model.modules()}
    called: list[int] = []
    with register_module_forward_pre_hook(lambda module, _: called.append(id(module))):
        run()
    return not originals.isdisjoint(called)


def nudge_zeros(model: nn.Module) -> None:
    """Replace parameters that are all zero with noise, so that every layer contributes.

    Some models initialize output projections or gates with zeros, so that each layer starts as the
    identity. Biases stay zero, because noise in them would make all tokens more similar.
    """
    generator = torch.Generator().manual_seed(2)
    for name, parameter in model.named_parameters():
        if not name.endswith("bias") and not parameter.any():
            noise = NUDGE * torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise if parameter.dim() > 1 else noise + NUDGE)


def amplify(model: nn.Module, gain: float = 1.0) -> None:
    """Scale up small weights, so that a layer's contribution is as large as its input.

    In a fresh model, each token often predicts itself, no matter what the model attends to.
    Embeddings do not change. With a larger gain, attention concentrates on fewer tokens.
    """
    for module in model.modules():
        if not isinstance(module, nn.Embedding):
            for parameter in module.parameters(recurse=False):
                narrowest = min(parameter.shape[-2:], default=1)
                least = gain * narrowest**-0.5 if parameter.dim() > 1 else GATE
                scale = parameter.square().mean().sqrt()
                if 0 < scale < least:
                    parameter.mul_(least / scale)
