"""The computer that runs the training: its processor, threads, memory and precision."""

import math
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.benchmark import Timer

from course_lib.trainer.options import TrainingConfig

MOST_THREADS = 1_024  # more than any of our models can use
CGROUP = Path("/sys/fs/cgroup")  # where Linux says how many bytes a container may use
MEMORY_LIMITS = (CGROUP / "memory.max", CGROUP / "memory" / "memory.limit_in_bytes")


def prepare_machine(threads: int, device: str) -> None:
    """Set the number of threads, and check the device.

    Raises ValueError if the number is out of range, or the device does not exist.
    """
    if not 1 <= threads <= MOST_THREADS:
        raise ValueError(f"--threads must be from 1 to {MOST_THREADS}, got {threads}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device was found; use --device cpu")
    torch.set_num_threads(threads)


def describe_machine(device: str) -> str:
    """Describe the processor or GPU, the number of threads in use, and the version of torch."""
    cpuinfo = Path("/proc/cpuinfo")
    models = re.findall("model name.*: (.*)", cpuinfo.read_text() if cpuinfo.exists() else "")
    name = models[0] if models else platform.processor() or platform.machine()
    if device == "cuda":
        name = torch.cuda.get_device_name()
    threads = f"{torch.get_num_threads()} of {os.cpu_count()} threads"
    return f"{name}, {threads}, torch {torch.__version__}"


def total_memory() -> float:
    """Return how many bytes of memory this process may use, or infinity if unknown."""
    sizes = [math.inf]
    if hasattr(os, "sysconf"):  # not on Windows
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    limits = [path.read_text().strip() for path in MEMORY_LIMITS if path.exists()]
    return min(sizes + [int(limit) for limit in limits if limit.isdecimal()])


def least_parameters(config: TrainingConfig, vocab_size: int = 0) -> int:
    """Return a lower bound on a model's number of parameters, without building the model."""
    width = config.d_model
    layer = width * (4 * width + 2 * getattr(config, "d_ff", 4 * width))
    return config.stacks * config.num_layers * layer + (vocab_size + config.max_len) * width


def check_memory(config: TrainingConfig, vocab_size: int, positions: float = 0) -> None:
    """Raise ValueError if a model and a batch with this many positions do not fit in memory.

    The estimate is a lower bound: 16 bytes for each parameter with its gradient and Adam's two
    moments, and at least eight vectors in bfloat16 for each position in each layer.
    """
    parameters = least_parameters(config, vocab_size)
    needed = 16 * (parameters + positions * config.num_layers * config.d_model)
    available = total_memory()
    if needed > available:
        raise ValueError(
            f"{parameters:,} parameters and {positions:,.0f} positions in a batch need "
            f"{needed / 1e9:,.0f} GB of memory, but only {available / 1e9:,.0f} GB is "
            "available: use a smaller model or smaller batches"
        )


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, because several threads slow down a small model."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def mixed_precision(bfloat16: bool = True, device: str = "cpu") -> Iterator[None]:
    """Compute matrix products in bfloat16 if asked to; on a CPU, use torch's plain attention.

    On a CPU, the fused kernel's backward pass is several times slower in bfloat16.
    """
    if not bfloat16:
        yield
        return
    plain = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else nullcontext()
    with torch.autocast(device, torch.bfloat16), plain:
        yield


def bfloat16_pays() -> bool:
    """Measure, in a tenth of a second, whether this processor multiplies faster in bfloat16."""
    taken = {}
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.ones(1024, 256, dtype=dtype), torch.ones(256, 1024, dtype=dtype)
        timer = Timer("a @ b", globals=dict(a=a, b=b), num_threads=torch.get_num_threads())
        taken[dtype] = timer.blocked_autorange(min_run_time=0.05).median
    return taken[torch.bfloat16] < 0.8 * taken[torch.float32]
