"""Matrix products in bfloat16, and what a CPU computes faster in another way."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.benchmark import Timer

BYTE = 256  # values that a byte can have


@contextmanager
def mixed_precision(bfloat16: bool = True, device: str = "cpu") -> Iterator[None]:
    """Compute matrix products in bfloat16, if asked to; on a CPU by torch's plain attention.

    There, backward, its fused one takes several times as long in bfloat16.
    """
    if not bfloat16:
        yield
        return
    plain = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else nullcontext()
    with torch.autocast(device, torch.bfloat16), plain:
        yield


class ByteDropout(nn.Dropout):
    """Drop numbers as ``nn.Dropout`` does, on a CPU with one random byte for each of them.

    Paper: §5.4.
    Differs: the probability is rounded to a multiple of 1/256, and the rest scaled to fit. Drawing
    a float for every number costs a tenth of a training step.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``."""
        dropped = round(self.p * BYTE)
        if not self.training or dropped == 0:
            return x
        if dropped == BYTE or x.device.type != "cpu":
            return super().forward(x)
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        chance = words.view(torch.uint8)[: x.numel()].view(x.shape)
        return x * ((chance >= dropped) * (BYTE / (BYTE - dropped)))


def drop_by_bytes(model: nn.Module) -> None:
    """Put a ``ByteDropout`` in the place of every ``nn.Dropout`` of a model."""
    for parent in list(model.modules()):
        for name, part in parent.named_children():
            if type(part) is nn.Dropout:
                setattr(parent, name, ByteDropout(part.p))


def bfloat16_pays(rounds: int = 5) -> bool:
    """Measure, in a tenth of a second, whether this processor multiplies faster in bfloat16."""
    best = {}
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.ones(1024, 256, dtype=dtype), torch.ones(256, 1024, dtype=dtype)
        timer = Timer("a @ b", globals=dict(a=a, b=b), num_threads=torch.get_num_threads())
        timer.timeit(1)  # warms up
        best[dtype] = min(timer.timeit(1).mean for _ in range(rounds))
    return best[torch.bfloat16] < 0.8 * best[torch.float32]
