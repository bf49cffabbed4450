"""Train the digit reverser with and without what differs from the paper, and record the losses."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from digit_reversal import ReversalConfig, new_model, train
from torch import nn
from training_runs import SEEDS, main

from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention
from course_lib.trainer.results import Entry
from course_lib.training import warmup_cooldown
from course_lib.transformer import Transformer

RECORD = Path(__file__).with_suffix(".json")


def unchanged(model: Transformer) -> None:
    """Leave the model as it is."""


def without_biases(model: Transformer) -> None:
    """Take the biases off the projections of every attention."""
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            for projection in (part.w_q, part.w_k, part.w_v, part.w_o):
                projection.bias = None


def dropped_weights(model: Transformer) -> None:
    """Drop a tenth of the attention weights."""
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.dropout = 0.1


def dropped_features(model: Transformer) -> None:
    """Drop a tenth of the features inside the feed-forward networks."""
    for part in model.modules():
        if isinstance(part, FeedForward):
            part.dropout = nn.Dropout(0.1)


def output_bias(model: Transformer) -> None:
    """Add a bias to the output layer."""
    model.output.bias = nn.Parameter(torch.zeros(model.output.out_features))


def without_final_norm(model: Transformer) -> None:
    """Let both stacks end without a norm."""
    model.encoder.norm = model.decoder.norm = None


VARIANTS: dict[str, tuple[Callable[[Transformer], None], dict[str, bool]]] = {
    "ours": (unchanged, {}),
    "no biases in attention": (without_biases, {}),
    "weights dropped": (dropped_weights, {}),
    "features dropped": (dropped_features, {}),
    "output bias": (output_bias, {}),
    "cooldown": (unchanged, {}),
    "pre-norm": (unchanged, {"norm_first": True}),
    "pre-norm, no final norm": (without_final_norm, {"norm_first": True}),
}
RUNS: list[Entry] = [{"name": name, "seed": seed} for name in VARIANTS for seed in SEEDS]


def train_one(run: Entry) -> Entry:
    """Train one variant from one seed; return its scores."""
    change, options = VARIANTS[run["name"]]
    config = ReversalConfig(seed=run["seed"])
    model = new_model(config, **options)
    change(model)
    schedule = config.rate
    if run["name"] == "cooldown":
        schedule = partial(
            warmup_cooldown,
            d_model=config.d_model,
            warmup_steps=config.warmup_steps,
            steps=config.steps,
            scale=config.rate_scale,
            cooldown_steps=config.steps // 4,
        )
    return train(model, config, schedule)


if __name__ == "__main__":
    sys.exit(main(__doc__, RECORD, RUNS, train_one))
