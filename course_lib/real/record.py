"""What real trainings came to: a file that is committed, so that it can be read without them."""

import json
import os
import platform
from pathlib import Path
from typing import Any

import torch

RECORD = Path(__file__).with_name("record.json")
# What tells two entries apart:
RUN = ("direction", "split", "seed", "epochs", "vocab_size", "average", "beam_size", "alpha")


def read_record(path: Path = RECORD) -> list[dict[str, Any]]:
    """Return the entries, each of one trained translator on one split."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def add_to_record(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry, in place of an older one of the same run."""
    kept = [e for e in read_record(path) if any(e[name] != entry[name] for name in RUN)]
    kept = sorted([*kept, entry], key=lambda e: [e[name] for name in RUN])
    lines = ",\n".join(json.dumps(e, ensure_ascii=False) for e in kept)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


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
