"""Record the attention weights of every layer while a model runs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn


def capture_attention(
    attentions: Mapping[str, Sequence[Tensor | nn.Module]], run: Callable[[], object]
) -> dict[str, Tensor]:
    """Run a model, and return the attention weights that its layers compute.

    Two hooks are registered on each layer. The first asks for the weights before ``forward`` runs,
    and the second records them afterward. Both are removed at the end, even after an error.

    Args:
        attentions: Lists of ``MultiHeadAttention`` layers, by name.
        run: The function that runs the model. It must call every layer exactly once.

    Returns:
        For each name, the weights ``(N, B, H, T, S)`` of its N layers.

    Raises:
        ValueError: If a list is empty, an item is not a module, or the layers are not called once.
    """
    recorded: dict[str, list[Tensor]] = {name: [] for name in attentions}

    def ask(layer: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Add the argument that makes a layer return its attention weights."""
        return args, kwargs | {"need_weights": True}

    with ExitStack() as hooks:
        for name, layers in attentions.items():

            def record(layer: nn.Module, args: tuple, output: tuple, name: str = name) -> None:
                """Record the attention weights that a layer returned."""
                recorded[name].append(output[1])

            for layer in layers:
                if not isinstance(layer, nn.Module):
                    raise ValueError(f"{name!r} must contain layers, got {type(layer).__name__}")
                before = layer.register_forward_pre_hook(ask, with_kwargs=True)
                hooks.callback(before.remove)
                hooks.callback(layer.register_forward_hook(record).remove)
        run()
    for name, layers in attentions.items():
        if len(recorded[name]) != len(layers) or not layers:
            calls = len(recorded[name])
            raise ValueError(f"{len(layers)} layers in {name!r} must run once, got {calls} calls")
    return {name: torch.stack(weights) for name, weights in recorded.items()}
