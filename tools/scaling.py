"""Train chapter 19's GPT in four widths, from three seeds, and record how the loss falls.

The learning rate stays where its warm-up ends, so that a measurement on the way is what a shorter
training would have come to. One seed is trained at another rate, too: a rate suits some widths
better than others.
"""

import argparse
import sys
from pathlib import Path

import torch

from course_lib.cli import STOPPED
from course_lib.tasks.language_model import LanguageModel, TextGeneratorConfig
from course_lib.trainer.hardware import describe_machine
from course_lib.trainer.loop import graceful_shutdown, start, train
from course_lib.trainer.options import whole_from_one
from course_lib.trainer.results import Entry, add_entry, read_entries, record_of
from course_lib.trainer.run_folder import checkpoints_folder, locked, read_checkpoint
from course_lib.trainer.task import TrainState

WIDTHS = (16, 32, 64, 128)  # d_model; of 4 layers with 4 heads each
RATE = 1e-3
RUNS = [*((RATE, seed) for seed in range(3)), (3 * RATE, 0)]
KEYS = ("d_model", "peak_rate", "seed", "steps")  # they tell two trainings apart


def settings(width: int, rate: float, seed: int, steps: int) -> TextGeneratorConfig:
    """Describe one training: initial weights shrink as the width grows, the rest is the same."""
    return TextGeneratorConfig(
        d_model=width,
        init_std=0.05 * (128 / width) ** 0.5,  # 0.05 is for 128
        seed=seed,
        steps=steps,
        peak_rate=rate,
        last_rate=rate,
        val_every=max(1, steps // 16),
    )


def entry_of(state: TrainState) -> Entry:
    """Return what is recorded of a training that is done."""
    config, model = state.pipeline.config, state.pipeline.model
    return {name: getattr(config, name) for name in KEYS} | {
        "tokens_per_step": config.batch_size * config.max_len,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "history": [[line["step"], line["val_loss"]] for line in state.history],
        "minutes": {clock: spent / 60 for clock, spent in state.seconds.items()},
        "machine": describe_machine("cpu"),
    }


def train_all(steps: int, file: Path, folder: Path) -> bool:
    """Train what the record lacks, from the last checkpoint on; say whether all is done."""
    for rate, seed in RUNS:
        for width in WIDTHS:
            if [width, rate, seed, steps] in map(key, read_entries(file)):
                continue
            config = settings(width, rate, seed, steps)
            out = folder / f"scaling-{width}-{rate}-{steps}-seed{seed}"
            with graceful_shutdown() as stop, locked(out):
                state = start(LanguageModel, config, read_checkpoint(out))
                if not train(state, out, stop=stop):
                    return False
            add_entry(file, entry_of(state), key)
            print(f"width {width}, rate {rate}, seed {seed}: {state.history[-1]['val_loss']:.3f}")
    return True


def key(entry: Entry) -> list:
    """Return what tells two trainings apart."""
    return [entry[name] for name in KEYS]


def main(arguments: list[str] | None = None) -> int:
    """Read the options, and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=whole_from_one, default=2_000)
    parser.add_argument(
        "--file", type=Path, default=record_of("scaling"), help="a record of your own"
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if not train_all(options.steps, options.file, checkpoints_folder()):
        print("\nstopped; the same command goes on", file=sys.stderr)
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
