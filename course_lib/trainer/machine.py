"""The computer a training runs on: which it is, what of it is used, and for how long."""

import argparse
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

MOST_THREADS = 1_024  # more than any of our models can use


def add_machine_options(command: argparse.ArgumentParser, threads: int | None = None) -> None:
    """Describe what computes: with as many threads as are given, else with all."""
    threads = threads or torch.get_num_threads()
    command.add_argument("--threads", type=int, default=threads)
    fastest = "cuda" if torch.cuda.is_available() else "cpu"
    command.add_argument("--device", choices=("cpu", "cuda"), default=fastest)


def prepare_machine(options: argparse.Namespace) -> None:
    """Take as many threads as asked for; refuse what this computer has not got.

    Args:
        options: With those of ``add_machine_options``.

    Raises:
        ValueError: If there is no thread to take, or no such device.
    """
    if not 1 <= options.threads <= MOST_THREADS:
        raise ValueError(f"--threads {options.threads} is not from 1 to {MOST_THREADS}")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device here; take --device cpu")
    torch.set_num_threads(options.threads)


def describe_machine(device: str) -> str:
    """Name the processor, and how many threads of it compute."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [
            line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        name = models[0].partition(": ")[2] if models else name
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


class Stopwatch:
    """Add the time that passes to what a run has spent.

    Args:
        seconds: Spent so far, over all starts: ``"wall"`` and ``"cpu"`` (of all threads). The
            dict itself is added to.
    """

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.last = seconds, self._now()

    @staticmethod
    def _now() -> dict[str, float]:
        """Read both clocks."""
        return {"wall": time.monotonic(), "cpu": time.process_time()}

    def look(self) -> None:
        """Add what has passed since the last look."""
        now = self._now()
        for name, seconds in now.items():
            self.seconds[name] += seconds - self.last[name]
        self.last = now

    def spent(self, clock: str) -> float:
        """Return the seconds spent by a clock; of processor time, each thread's share."""
        threads = torch.get_num_threads() if clock == "cpu" else 1
        return self.seconds[clock] / threads
