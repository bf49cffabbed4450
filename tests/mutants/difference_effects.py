"""Train the digit reverser with and without our differences from the paper, and record losses."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from digit_reversal import ReversalConfig, new_model, train
from torch import nn

from course_lib.multi_head import MultiHeadAttention
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry
from course_lib.tasks.numbers import warmup_cooldown
from course_lib.transformer import Transformer

RECORD = Path(__file__).with_suffix(".json")


def attentions(model: Transformer) -> list[MultiHeadAttention]:
    """Return all attention modules of a model."""
    return [part for part in model.modules() if isinstance(part, MultiHeadAttention)]


def without_biases(model: Transformer) -> None:
    """Remove the biases from the projections in every attention module."""
    for attention in attentions(model):
        for projection in attention.children():
            projection.bias = None


def dropped_weights(model: Transformer) -> None:
    """Apply dropout of 0.1 to the attention weights."""
    for attention in attentions(model):
        attention.dropout = 0.1


def dropped_features(model: Transformer) -> None:
    """Apply dropout of 0.1 inside the feed-forward networks."""
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.feed_forward.dropout = nn.Dropout(0.1)


def output_bias(model: Transformer) -> None:
    """Add a bias to the output layer."""
    model.output.bias = nn.Parameter(torch.zeros(model.output.out_features))


def without_final_norm(model: Transformer) -> None:
    """Remove the final norm from both stacks."""
    model.encoder.norm = model.decoder.norm = None


CHANGES: dict[str, Callable[[Transformer], None] | None] = {  # applied to a new model
    "ours": None,
    "no biases in attention": without_biases,
    "weights dropped": dropped_weights,
    "features dropped": dropped_features,
    "output bias": output_bias,
    "cooldown": None,
    "pre-norm": None,
    "pre-norm, no final norm": without_final_norm,
}
RUNS: list[Entry] = [{"name": name, "seed": seed} for name in CHANGES for seed in SEEDS]


def train_one(run: Entry) -> Entry:
    """Train one variant with one seed, and return its scores."""
    config = ReversalConfig(seed=run["seed"])
    model = new_model(config, norm_first=run["name"].startswith("pre-norm"))
    if change := CHANGES[run["name"]]:
        change(model)
    rate = config.rate
    if run["name"] == "cooldown":
        rate = partial(
            warmup_cooldown, d_model=config.d_model, warmup_steps=config.warmup_steps,
            steps=config.steps, cooldown_steps=config.steps // 4, scale=config.rate_scale,
        )  # fmt: skip
    return train(model, config, rate)


if __name__ == "__main__":
    main(__doc__, RECORD, RUNS, train_one)
