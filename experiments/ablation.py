"""Train the models from chapter 18, cut down step by step, and more of them as controls."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training_runs import Unmeasured, fit_language_model

from course_lib.data import side_by_side
from course_lib.decoder_only import DecoderOnly
from course_lib.gpt import GPT, initialize_gpt
from course_lib.masks import causal_mask
from course_lib.positions import LearnedPositionalEmbedding
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.language_model import TextGeneratorConfig
from course_lib.transformer import Transformer, TransformerConfig

USUAL = TextGeneratorConfig(bias=True)  # windows, optimizer and schedule; all six have biases
WINDOWS_AT_ONCE = 40  # while measuring


def sizes(vocab_size: int, **changes: Any) -> TransformerConfig:
    """Configure a model from chapter 18 with the paper's choices and four layers on each side."""
    usual = dict(
        src_vocab_size=vocab_size, tgt_vocab_size=vocab_size, max_len=USUAL.max_len, dropout=0.0,
        d_model=USUAL.d_model, num_heads=USUAL.num_heads, d_ff=4 * USUAL.d_model,
        num_encoder_layers=USUAL.num_layers, num_decoder_layers=USUAL.num_layers,
    )  # fmt: skip
    return TransformerConfig(**usual | changes)


def encoder_and_decoder(vocab_size: int) -> Transformer:
    """Build a Transformer whose padding is an id that no text contains."""
    return Transformer(sizes(vocab_size + 1, pad_id=vocab_size))


def learned_positions(vocab_size: int, activation: str = "relu") -> DecoderOnly:
    """Build the model after the third cut or, with GELU, the one after the fourth cut."""
    config = sizes(vocab_size, norm_first=True, activation=activation)
    return DecoderOnly(config, learned_positions=True)


def larger_positions(vocab_size: int) -> DecoderOnly:
    """Build the model after the third cut, with initial positions as large as its embeddings."""
    model = learned_positions(vocab_size)
    model.positions.weight.data /= model.positions.weight.std()
    return model


class FastPositions(LearnedPositionalEmbedding):
    """Learned positions that move √d_model times as far in a step, like the embeddings."""

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add the positions, multiplied by √d_model."""
        return x + self.weight[start : start + x.size(-2)] * math.sqrt(x.size(-1))


def fast_positions(vocab_size: int) -> DecoderOnly:
    """Build the model after the third cut, with positions that move as fast as its embeddings."""
    model = learned_positions(vocab_size)
    positions = FastPositions(USUAL.d_model, USUAL.max_len)
    positions.weight.data = model.positions.weight.data / math.sqrt(USUAL.d_model)
    model.positions = positions
    return model


class Unscaled(DecoderOnly):
    """A decoder-only model that does not multiply its embeddings by √d_model."""

    def forward(self, ids: Tensor) -> Tensor:
        """Turn ids (B, T) into logits (B, T, V)."""
        vectors = self.positions(self.embedding(ids))  # (B, T, d_model)
        return self.output(self.stack(vectors, causal_mask(ids.size(1), ids.device)))


def unscaled(vocab_size: int) -> DecoderOnly:
    """Build the model after the fifth cut, without the factor √d_model."""
    return Unscaled(sizes(vocab_size, norm_first=True, activation="gelu"), learned_positions=True)


def started_as_gpt(vocab_size: int) -> DecoderOnly:
    """Build the model after the fourth cut, with the initial weights of chapter 19's ``GPT``.

    The two still differ: a ``GPT`` computes queries, keys and values with one matrix, and does not
    multiply the embedding by √d_model.
    """
    model = learned_positions(vocab_size, "gelu")
    initialize_gpt(model, USUAL.init_std, USUAL.num_layers)
    return model


MODELS: dict[str, Callable[[int], nn.Module]] = {  # each is one cut further
    "encoder and decoder": encoder_and_decoder,
    "no encoder": lambda V: DecoderOnly(sizes(V)),
    "norm first": lambda V: DecoderOnly(sizes(V, norm_first=True)),
    "learned positions": learned_positions,
    "GELU": lambda V: learned_positions(V, "gelu"),
    "one projection": lambda V: GPT(USUAL.of_model(V)),  # the last cut: chapter 19's GPT
    "larger positions": larger_positions,  # not a cut, but a control for the third
    "chapter 19's weights": started_as_gpt,  # a control: the sixth cut before the fifth
    "two stacks, 2 × steps": encoder_and_decoder,  # the same number of targets as one stack
    "fast positions": fast_positions,
    "no factor": unscaled,  # the fifth cut
}
LONGER = {"two stacks, 2 × steps": 2}  # a multiple of the steps; only with the first seed
RUNS: list[Entry] = [
    {"name": name, "seed": seed, "steps": USUAL.steps}
    for name in MODELS
    for seed in SEEDS[: 1 if name in LONGER else None]
]


def scores(model: nn.Module, ids: Tensor) -> Tensor:
    """Return next-token logits for windows of tokens ``(B, T)``, at all positions if possible.

    A model with an encoder reads the first half as its source, so it predicts only the second half.
    """
    if isinstance(model, Transformer):
        half = ids.size(1) // 2
        return model(ids[:, :half], ids[:, half:])  # (B, T / 2, V + 1)
    logits = model(ids)
    return logits[0] if isinstance(model, GPT) else logits  # (B, T, V)


def loss_of(model: nn.Module, ids: Tensor, targets: Tensor, last: int | None = None) -> Tensor:
    """Return the mean loss in nats, over all predictions or the last few in each window."""
    logits = scores(model, ids)
    last = last or logits.size(1)
    return F.cross_entropy(logits[:, -last:].flatten(0, 1), targets[:, -last:].flatten())


@torch.no_grad()
def val_loss(model: nn.Module, ids: Tensor) -> float:
    """Measure the loss on the second half of each window, the part that all models predict."""
    windows = side_by_side(ids, USUAL.max_len)[: USUAL.val_windows]
    half = USUAL.max_len // 2
    model.eval()
    total = 0.0
    for part in windows.split(WINDOWS_AT_ONCE):
        total += len(part) * loss_of(model, part[:, :-1], part[:, 1:], half).item()
    return total / len(windows)


class Ablated(Unmeasured):
    """A task that trains any of these models in the same way as chapter 19 trains its GPT."""

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Compute the mean loss over all predictions."""
        return loss_of(model, *batch)


def train_one(run: Entry, models: dict[str, Callable[[int], nn.Module]] = MODELS) -> Entry:
    """Train one model with one seed, and return its final loss."""
    steps = LONGER.get(run["name"], 1) * run["steps"]
    task = Ablated(replace(USUAL, seed=run["seed"], steps=steps), None)
    state, description = fit_language_model(task, models[run["name"]])
    return {"val_loss": val_loss(state.pipeline.model, task.text.val)} | description


if __name__ == "__main__":
    main(__doc__, record_of("ablation"), RUNS, train_one)
