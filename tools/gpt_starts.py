"""Train the small GPT of chapter 19 from eight starts, and keep how its loss fell.

Each start multiplies some of the matrices of a GPT that was drawn with GPT-2's 0.02. The chapter
reads the record; the same command goes on with what the record lacks.
"""

import argparse
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from course_lib.cli import STOPPED
from course_lib.gpt import GPT
from course_lib.tasks.language_model import LanguageModel, TextGeneratorConfig
from course_lib.trainer.hardware import describe_machine
from course_lib.trainer.loop import fit
from course_lib.trainer.results import add_entry, read_entries, record_of

USUAL = TextGeneratorConfig(
    num_layers=2, batch_size=8, steps=400, warmup_steps=20, peak_rate=3e-3, last_rate=3e-4,
    init_std=0.02, val_every=50, bias=True,
)  # fmt: skip
FACTOR = 2.5  # 0.02 becomes 0.05
SEEDS = (0, 1, 2)
LARGER = {  # the names of a GPT's parameters begin so; the output is the embedding
    "GPT-2's": (),
    "embeddings": ("embedding",),
    "positions": ("positions",),
    "layers": ("layers",),
    "embeddings, positions": ("embedding", "positions"),
    "embeddings, layers": ("embedding", "layers"),
    "positions, layers": ("positions", "layers"),
    "all three": ("embedding", "positions", "layers"),
}


def enlarge(model: GPT, beginnings: tuple[str, ...]) -> None:
    """Multiply the matrices whose names begin so."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and name.startswith(beginnings):
            parameter.data *= FACTOR


def train_one(name: str, config: TextGeneratorConfig) -> dict[str, Any]:
    """Train from one start and one seed; return its entry."""
    task = LanguageModel(config, None)
    torch.manual_seed(config.seed)
    model = GPT(config.of_model(len(task.text.characters)))
    enlarge(model, LARGER[name])
    state = fit(task, model)
    return {
        "name": name,
        "seed": config.seed,
        "steps": [line["step"] for line in state.history],
        "val_loss": [line["val_loss"] for line in state.history],
        "minutes": {clock: spent / 60 for clock, spent in state.seconds.items()},
        "machine": describe_machine("cpu"),
        "python": platform.python_version(),
    }


def place(entry: dict[str, Any]) -> list[int]:
    """Sort an entry by its start, then by its seed."""
    return [list(LARGER).index(entry["name"]), entry["seed"]]


def train_all(file: Path) -> None:
    """Train what the file lacks, add each as soon as it is trained, and print all."""
    for seed in SEEDS:
        for name in LARGER:
            if (name, seed) not in {(e["name"], e["seed"]) for e in read_entries(file)}:
                add_entry(file, train_one(name, replace(USUAL, seed=seed)), place)
    for entry in read_entries(file):
        print(f"{entry['name']:21} seed {entry['seed']}: val loss {entry['val_loss'][-1]:.3f}")


def main(arguments: list[str] | None = None) -> int:
    """Read the options, and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--file", type=Path, default=record_of("gpt_starts"), help="a record of your own"
    )
    file = parser.parse_args(arguments).file
    torch.set_num_threads(1)
    print(f"the record is {file}", flush=True)
    try:
        train_all(file)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on with what the record lacks", file=sys.stderr)
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
