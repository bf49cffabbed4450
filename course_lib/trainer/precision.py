"""Matrix products in bfloat16, everything that needs care in float32."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

BYTE = 256  # values that a byte can have


@contextmanager
def mixed_precision(bfloat16: bool = True, device: str = "cpu") -> Iterator[None]:
    """Compute matrix products in bfloat16; on a CPU, attention in float32.

    Paper: not mentioned.

    On a CPU, torch's fused attention is about twenty times slower backwards in bfloat16 than in
    float32, and drawing one float for every number that dropout may drop costs a tenth of a
    training step. So attention stays in float32, and dropout draws one byte for each number.

    Args:
        bfloat16: ``False``: products in float32 too; only dropout is another.
        device: Where the model is: ``"cpu"`` or ``"cuda"``.
    """
    with torch.autocast(device, torch.bfloat16, enabled=bfloat16), _OwnKernels():
        yield


class _OwnKernels(TorchFunctionMode):
    """Take the place of two of torch's functions on the CPU, while it is entered."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Call ours in place of torch's."""
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention and args[0].device.type == "cpu":
            with torch.autocast("cpu", enabled=False):
                return func(*map(_at_least_float32, args[:3]), *args[3:], **kwargs)
        if func is F.dropout:
            return dropout_by_bytes(*args, **kwargs)
        return func(*args, **kwargs)


def _at_least_float32(x: Tensor) -> Tensor:
    """Widen what is narrower."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def dropout_by_bytes(
    x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop numbers as ``F.dropout`` does, with one random byte for each of them.

    Paper: §5.4.
    Differs: the share dropped is rounded to a multiple of 1/256, and the rest scaled to fit.

    Args:
        x: Any shape.
        p: Share dropped, in [0, 1].
        training: ``False`` drops nothing.
        inplace: As in ``F.dropout``; here always a new tensor.
    """
    dropped = round(p * BYTE)
    if not training or dropped == 0:
        return x
    if dropped == BYTE or x.device.type != "cpu":
        return F.dropout(x, p)
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    chance = words.view(torch.uint8)[: x.numel()].view(x.shape)
    return x * ((chance >= dropped) * (BYTE / (BYTE - dropped)))


def bfloat16_pays(rounds: int = 5) -> bool:
    """Measure, in a tenth of a second, whether this processor multiplies faster in bfloat16."""
    left = torch.ones(1024, 256)
    right = torch.ones(256, 1024)
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        a = left.to(dtype)
        b = right.to(dtype)
        times = []
        for _ in range(rounds + 1):  # the first one warms up
            start = time.perf_counter()
            a @ b
            times.append(time.perf_counter() - start)
        seconds[dtype] = min(times[1:])
    return seconds[torch.bfloat16] < 0.8 * seconds[torch.float32]
