"""Train the digit reverser with and without what differs from the paper, and keep both losses."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from mutants import Reversal, ReversalConfig, build
from torch import nn

from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention
from course_lib.trainer.loop import train
from course_lib.trainer.results import add_entry, read_entries
from course_lib.trainer.task import TrainState
from course_lib.training import warmup_cooldown

RECORD = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2)


def without_biases(model: nn.Module) -> None:
    """Take the biases off the projections of every attention."""
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            for projection in (part.w_q, part.w_k, part.w_v, part.w_o):
                projection.bias = None


def dropped_weights(model: nn.Module) -> None:
    """Drop a tenth of the attention weights."""
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.dropout = 0.1


def dropped_features(model: nn.Module) -> None:
    """Drop a tenth of the features inside the feed-forward networks."""
    for part in model.modules():
        if isinstance(part, FeedForward):
            part.dropout = nn.Dropout(0.1)


def output_bias(model: nn.Module) -> None:
    """Add a bias to the output layer."""
    model.output.bias = nn.Parameter(torch.zeros(model.output.out_features))


def without_final_norm(model: nn.Module) -> None:
    """Let both stacks end without a norm."""
    model.encoder.norm = model.decoder.norm = None


VARIANTS: dict[str, tuple[Callable[[nn.Module], None], dict]] = {
    "ours": (lambda model: None, {}),
    "no biases in attention": (without_biases, {}),
    "weights dropped": (dropped_weights, {}),
    "features dropped": (dropped_features, {}),
    "output bias": (output_bias, {}),
    "cooldown": (lambda model: None, {}),
    "pre-norm": (lambda model: None, {"norm_first": True}),
    "pre-norm, no final norm": (without_final_norm, {"norm_first": True}),
}


def train_one(name: str, seed: int) -> dict:
    """Train one variant from one seed; return its entry."""
    change, options = VARIANTS[name]
    task = Reversal(ReversalConfig(seed=seed))
    model = build(None, task.pipeline.config, **options)
    change(model)
    task.pipeline = replace(task.pipeline, model=model)
    if name == "cooldown":
        c = task.pipeline.config
        options = dict(steps=c.steps, scale=c.rate_scale, cooldown_steps=c.steps // 4)
        task.rate = lambda step: warmup_cooldown(step, c.d_model, c.warmup_steps, **options)
    state = TrainState(task, model, task.optimizer())
    with TemporaryDirectory() as folder:
        train(state, Path(folder))
    return {"name": name, "seed": seed, **state.history[-1]}


def key(entry: dict) -> list[int]:
    """Return what tells two trainings apart, and sorts them."""
    return [list(VARIANTS).index(entry["name"]), entry["seed"]]


def main() -> None:
    """Train what the record lacks, and print all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=RECORD, help="a record of your own")
    file = parser.parse_args().file
    torch.set_num_threads(1)
    for name in VARIANTS:
        for seed in SEEDS:
            if [list(VARIANTS).index(name), seed] not in map(key, read_entries(file)):
                add_entry(file, train_one(name, seed), key)
    for entry in read_entries(file):
        print(f"{entry['name']:24} seed {entry['seed']}: {entry['val_loss']:.3f}")


if __name__ == "__main__":
    main()
