"""Record the weights of every attention layer while a model runs."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn


def capture_attention(attentions: dict[str, list[nn.Module]], run: Callable[[], Any]) -> dict:
    """Ask attention layers for their weights while something runs, and return what they used.

    Two hooks do it: a function that PyTorch calls before a module's ``forward`` asks for the
    weights, another that it calls afterwards records them. Both are removed, even after an error.

    Args:
        attentions: Lists of ``MultiHeadAttention`` layers, by name. While something runs, each is
            called with ``need_weights=True``; afterwards it is as before.
        run: What to run; it calls every layer once.

    Returns:
        For each name the weights ``(N, B, H, T, S)`` of its N layers.
    """
    recorded: dict[str, list[torch.Tensor]] = {name: [] for name in attentions}

    def ask(layer: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Ask a layer for its weights."""
        return args, kwargs | {"need_weights": True}

    with ExitStack() as hooks:
        for name, layers in attentions.items():

            def record(layer: nn.Module, args: tuple, output: tuple, name: str = name) -> None:
                """Keep the weights that a layer returned."""
                recorded[name].append(output[1])

            for layer in layers:
                before = layer.register_forward_pre_hook(ask, with_kwargs=True)
                hooks.callback(before.remove)
                hooks.callback(layer.register_forward_hook(record).remove)
        run()
    return {name: torch.stack(weights) for name, weights in recorded.items()}
