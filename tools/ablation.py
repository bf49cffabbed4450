"""Train the six models of chapter 18, cut by cut, and four more as controls.

With ``--parts`` the parts of chapter 21 in its stead, each alone in a GPT without biases. What each
comes to is kept in the record that the chapter reads.
"""

import argparse
import math
import platform
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.cli import STOPPED
from course_lib.data import side_by_side
from course_lib.decoder_only import DecoderOnly
from course_lib.gpt import GPT, initialize_gpt
from course_lib.modern_decoder import GroupedQueryAttention, RMSNorm, SwiGLU, rope_angles
from course_lib.positions import LearnedPositionalEmbedding, PositionalEncoding
from course_lib.tasks.language_model import LanguageModel, TextGeneratorConfig
from course_lib.trainer.hardware import describe_machine
from course_lib.trainer.loop import fit
from course_lib.trainer.options import whole_from_one
from course_lib.trainer.results import add_entry, read_entries, record_of
from course_lib.trainer.run_folder import checkpoints_folder
from course_lib.transformer import Transformer, TransformerConfig

USUAL = TextGeneratorConfig(bias=True)  # windows, optimizer and schedule; all six have biases
PARTS_STEPS = 500  # of the models of chapter 21
SEEDS = (0, 1, 2)
PLACES = 40  # windows read at once while measuring


def sizes(vocab_size: int, **changes: Any) -> TransformerConfig:
    """Describe a model of chapter 18: the paper's choices, four layers on each side."""
    usual = dict(
        src_vocab_size=vocab_size, tgt_vocab_size=vocab_size, max_len=USUAL.max_len, dropout=0.0,
        d_model=USUAL.d_model, num_heads=USUAL.num_heads, d_ff=4 * USUAL.d_model,
        num_encoder_layers=USUAL.num_layers, num_decoder_layers=USUAL.num_layers,
    )  # fmt: skip
    return TransformerConfig(**usual | changes)


def louder_positions(vocab_size: int) -> DecoderOnly:
    """Build the model of the third cut, its positions as loud at the start as its words."""
    model = DecoderOnly(sizes(vocab_size, norm_first=True), learned_positions=True)
    model.positions.weight.data /= model.positions.weight.std()
    return model


class FastPositions(LearnedPositionalEmbedding):
    """Start as learned positions do, and move √d_model times as far in a step, as words do."""

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add the rows, multiplied by √d_model."""
        return x + self.weight[start : start + x.size(-2)] * math.sqrt(x.size(-1))


def fast_positions(vocab_size: int) -> DecoderOnly:
    """Build the model of the third cut, its positions as fast under Adam as its words."""
    model = DecoderOnly(sizes(vocab_size, norm_first=True), learned_positions=True)
    positions = FastPositions(USUAL.d_model, USUAL.max_len)
    positions.weight.data = model.positions.weight.data / math.sqrt(USUAL.d_model)
    model.positions = positions
    return model


def started_as_gpt(vocab_size: int) -> DecoderOnly:
    """Build the model of the fourth cut, with the start of chapter 19's ``GPT``.

    What differs then between the two: one product makes queries, keys and values, and the
    embedding is not multiplied by √d_model.
    """
    config = sizes(vocab_size, norm_first=True, activation="gelu")
    model = DecoderOnly(config, learned_positions=True)
    initialize_gpt(model, USUAL.init_std, USUAL.num_layers)
    return model


MODELS: dict[str, Callable[[int], nn.Module]] = {  # each is one cut further, from V characters
    "encoder and decoder": lambda V: Transformer(sizes(V + 1, pad_id=V)),  # V: no text has it
    "no encoder": lambda V: DecoderOnly(sizes(V)),
    "norm first": lambda V: DecoderOnly(sizes(V, norm_first=True)),
    "learned positions": lambda V: DecoderOnly(sizes(V, norm_first=True), True),
    "GELU": lambda V: DecoderOnly(sizes(V, norm_first=True, activation="gelu"), True),
    "one product": lambda V: GPT(USUAL.of_model(V)),  # chapter 19's GPT
    "louder positions": louder_positions,  # no cut: the third, explained
    "start of chapter 19": started_as_gpt,  # no cut: the fifth, explained
    "two stacks, 2 × steps": lambda V: Transformer(sizes(V + 1, pad_id=V)),  # as many targets
    "fast positions": fast_positions,
}
LONGER = {"two stacks, 2 × steps": 2}  # times the steps; from the first seed only


class RotaryAttention(GroupedQueryAttention):
    """Bring the angles along, as a GPT's layer hands none on."""

    def __init__(self) -> None:
        super().__init__(USUAL.d_model, USUAL.num_heads, USUAL.num_heads)
        angles = rope_angles(USUAL.max_len, USUAL.d_model // USUAL.num_heads)
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Rotate by the positions from 0 on."""
        return super().forward(x, self.angles[: x.size(1)])


def with_part(change: Callable[[GPT], None]) -> Callable[[int], GPT]:
    """Return what builds a GPT without biases from V characters, with a part exchanged."""

    def build(vocab_size: int) -> GPT:
        """Build it; old parts and new ones start alike."""
        model = GPT(replace(USUAL, bias=False).of_model(vocab_size))
        change(model)
        initialize_gpt(model, USUAL.init_std, USUAL.num_layers)
        return model

    return build


def rms_norm(model: GPT) -> None:
    """Put it where the layer norms are."""
    for layer in model.layers:
        layer.add_norm1.norm = RMSNorm(USUAL.d_model)
        layer.add_norm2.norm = RMSNorm(USUAL.d_model)
    model.norm = RMSNorm(USUAL.d_model)


def swiglu(model: GPT) -> None:
    """Put one of about the same size where the feed-forward is."""
    for layer in model.layers:
        layer.feed_forward = SwiGLU(USUAL.d_model, 4 * USUAL.d_model * 2 // 3)


def rope(model: GPT) -> None:
    """Rotate queries and keys, and add nothing."""
    model.positions = nn.Identity()
    for layer in model.layers:
        layer.self_attn = RotaryAttention()


def sinusoids(model: GPT) -> None:
    """Add the paper's table, as large at the start as the words: no position has to be learned."""
    model.positions = PositionalEncoding(USUAL.d_model, USUAL.max_len, dropout=0.0)
    model.positions.encoding *= USUAL.init_std * math.sqrt(2)  # a table of sines has the RMS 1/√2


PARTS: dict[str, Callable[[int], nn.Module]] = {
    "GPT": with_part(lambda model: None),
    "RMSNorm": with_part(rms_norm),
    "SwiGLU": with_part(swiglu),
    "RoPE": with_part(rope),
    "sinusoids": with_part(sinusoids),  # a control: fixed positions, added
}


def scores(model: nn.Module, ids: Tensor) -> Tensor:
    """Score what follows the tokens ``(B, T)`` of windows: as many last ones as the model can.

    A model with an encoder reads the first half as its source, and scores the second half only.
    """
    if isinstance(model, Transformer):
        half = ids.size(1) // 2
        return model(ids[:, :half], ids[:, half:])  # (B, T / 2, V + 1)
    logits = model(ids)
    return logits[0] if isinstance(model, GPT) else logits  # (B, T, V)


def loss_of(model: nn.Module, ids: Tensor, targets: Tensor, last: int | None = None) -> Tensor:
    """Return the mean loss of all predictions, or of the last few of each window, in nats."""
    logits = scores(model, ids)
    last = last or logits.size(1)
    return F.cross_entropy(logits[:, -last:].flatten(0, 1), targets[:, -last:].flatten())


@torch.no_grad()
def val_loss(model: nn.Module, ids: Tensor) -> float:
    """Measure the loss on the second halves of the first windows: the first model has no other."""
    half = USUAL.max_len // 2
    windows = side_by_side(ids, USUAL.max_len)[: USUAL.val_windows]
    model.eval()
    total = 0.0
    for part in windows.split(PLACES):
        total += len(part) * loss_of(model, part[:, :-1], part[:, 1:], half).item()
    return total / len(windows)


class Ablated(LanguageModel):
    """Train a model of ``MODELS`` or ``PARTS`` as chapter 19 trains its GPT."""

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Compute the mean loss of all predictions."""
        return loss_of(model, *batch)

    def is_measured(self, step: int) -> bool:
        """Measure at the end only, and elsewhere: on second halves."""
        return False


def train_one(name: str, config: TextGeneratorConfig) -> dict[str, Any]:
    """Train one model from one seed; return its entry."""
    models = PARTS if name in PARTS else MODELS
    task = Ablated(replace(config, steps=LONGER.get(name, 1) * config.steps), None)
    torch.manual_seed(config.seed)
    model = models[name](len(task.text.characters))
    state = fit(task, model)
    return {
        "cut": list(models).index(name),
        "name": name,
        "seed": config.seed,
        "steps": config.steps,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "val_loss": val_loss(model, task.text.val),
        "minutes": {clock: spent / 60 for clock, spent in state.seconds.items()},
        "machine": describe_machine("cpu"),
        "python": platform.python_version(),
    }


def add_ablation(file: Path, entry: dict[str, Any]) -> None:
    """Write an entry, in place of an older one of the same training."""
    add_entry(file, entry, lambda e: [e["cut"], e["seed"], e["steps"]])


def train_all(names: Collection[str], seeds: list[int], steps: int, file: Path) -> None:
    """Train what the file lacks, and add each as soon as it is trained."""
    for seed in seeds:
        for name in names if seed == seeds[0] else [n for n in names if n not in LONGER]:
            done = {(e["name"], e["seed"], e["steps"]) for e in read_entries(file)}
            if (name, seed, steps) not in done:
                entry = train_one(name, replace(USUAL, seed=seed, steps=steps))
                add_ablation(file, entry)
    for entry in read_entries(file):
        if entry["steps"] == steps:
            losses = f"val loss {entry['val_loss']:.4f}, {entry['parameters']:,} parameters"
            print(f"{entry['name']:20} seed {entry['seed']}: {losses}")


def main(arguments: list[str] | None = None) -> int:
    """Read the options, and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", action="store_true", help="the parts of chapter 21")
    parser.add_argument("--steps", type=whole_from_one, help="2,000, or 500 with --parts")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--threads", type=whole_from_one, default=1)
    parser.add_argument("--file", type=Path, help="a record of your own")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    names, file, usual = MODELS, record_of("ablation"), USUAL.steps
    if options.parts:
        names, file, usual = PARTS, record_of("modern_parts"), PARTS_STEPS
    steps = options.steps or usual
    if steps != usual:  # a quick try is none of the record's
        file = checkpoints_folder() / f"{file.stem}-{steps}-steps.json"
    file = options.file or file
    print(f"the record is {file}", flush=True)
    try:
        train_all(names, options.seeds, steps, file)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on with what the record lacks", file=sys.stderr)
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
