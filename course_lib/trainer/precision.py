"""Matrix products in bfloat16, and whether a processor computes them faster."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.benchmark import Timer


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


def bfloat16_pays(rounds: int = 5) -> bool:
    """Measure, in a tenth of a second, whether this processor multiplies faster in bfloat16."""
    best = {}
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.ones(1024, 256, dtype=dtype), torch.ones(256, 1024, dtype=dtype)
        timer = Timer("a @ b", globals=dict(a=a, b=b), num_threads=torch.get_num_threads())
        timer.timeit(1)  # warms up
        best[dtype] = min(timer.timeit(1).mean for _ in range(rounds))
    return best[torch.bfloat16] < 0.8 * best[torch.float32]
