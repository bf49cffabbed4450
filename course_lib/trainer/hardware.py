"""The computer a training runs on: what of it is used, and which it is."""

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

MOST_THREADS = 1_024  # more than any of our models can use


def prepare_machine(threads: int, device: str) -> None:
    """Take as many threads as asked for.

    Raises:
        ValueError: If there is no thread to take, or no such device.
    """
    if not 1 <= threads <= MOST_THREADS:
        raise ValueError(f"--threads {threads} is not from 1 to {MOST_THREADS}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device here; take --device cpu")
    torch.set_num_threads(threads)


def describe_machine(device: str) -> str:
    """Name the processor, and how many threads of it compute."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    models = re.findall("model name.*: (.*)", cpuinfo.read_text() if cpuinfo.exists() else "")
    name = models[0] if models else name
    if device == "cuda":
        name = torch.cuda.get_device_name()
    threads = f"{torch.get_num_threads()} of {os.cpu_count()} threads"
    return f"{name}, {threads}, torch {torch.__version__}"


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: in a model this small, several only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
