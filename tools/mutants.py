"""What "it trains" is worth: the known mistakes of 01 to 11, one at a time, in a model that learns.

The toy task is to write digits backwards; the model is the paper's, two layers on each side. Each
mistake takes about ten seconds; a run that was stopped goes on with its record.

    python tools/mutants.py  # --seeds 0 --steps 300 --file FILE
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock
from zlib import crc32

import torch
from torch import Tensor, nn

from course_lib import decoding, probes, training, transformer
from course_lib.exercises.exercise_bank import exercise, exercises, known_mistakes
from course_lib.exercises.mistake_catalogue import Mistake
from course_lib.trainer.loop import train
from course_lib.trainer.options import whole_from_one
from course_lib.trainer.results import Entry, add_entry, read_entries, write_entries
from course_lib.trainer.task import Pipeline, Task, TrainState

RECORD = Path(__file__).with_name("mutants_record.json")
CHAPTERS = (
    "attention", "multi_head", "positions", "add_norm", "feed_forward", "masks", "encoder",
    "decoder", "transformer", "training", "decoding",
)  # fmt: skip
ELSEWHERE = ("sample_tokens",)  # not in this model
BOS, EOS, PAD, DIGIT = 0, 1, 2, 3  # the digit 0 is the id 3
VOCAB, SMOOTHING, TEST = 13, 0.1, 200
DROPOUT = 0.1  # of the paper's choices
OTHER = dict(  # than the paper's choices
    norm_first=True, activation="gelu", tie_embeddings="none", dropout=0.2
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReversalConfig:
    """Hold the hyperparameters of a model that writes digits backwards."""

    seed: int = 0  #: decides the first weights and the digits
    steps: int = 300  #: the last step
    batch_size: int = 64  #: rows of a step
    d_model: int = 32  #: width of the vectors
    warmup_steps: int = 40  #: the step at which the learning rate peaks
    rate_scale: float = 0.3  #: the paper's learning rate times this
    bfloat16: bool = False  #: whether matrix products are computed in it

    def of_model(self, vocab_size: int, **other: Any) -> transformer.TransformerConfig:
        """Return the hyperparameters of the model."""
        sizes = dict(d_model=self.d_model, num_heads=4, d_ff=64, max_len=16, dropout=DROPOUT)
        sizes |= dict(num_encoder_layers=2, num_decoder_layers=2, pad_id=PAD)
        sizes |= dict(src_vocab_size=vocab_size, tgt_vocab_size=vocab_size)
        return transformer.TransformerConfig(**sizes | other)


def reversals(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw three to six digits, and write them backwards from ``BOS`` to ``EOS``."""
    src = torch.full((count, 6), PAD)
    tgt = torch.full((count, 8), PAD)
    tgt[:, 0] = BOS
    lengths = torch.randint(3, 7, (count,), generator=generator)
    for row, length in enumerate(lengths.tolist()):
        digits = DIGIT + torch.randint(10, (length,), generator=generator)
        src[row, :length] = digits
        tgt[row, 1 : length + 2] = torch.cat([digits.flip(0), torch.tensor([EOS])])
    return src, tgt


@contextmanager
def planted(mistake: Mistake | None) -> Iterator[None]:
    """Put a mistake wherever the course's modules use the right definition; ``None``: nowhere."""
    if mistake is None:
        yield
        return
    right, wrong = exercise(mistake.exercise).given, mistake.implementation
    patched = {}
    for name in (*CHAPTERS, "kv_cache"):
        module = import_module(f"course_lib.{name}")
        if getattr(module, mistake.exercise, None) is right:
            patched[module] = {mistake.exercise: wrong}
    if mistake.exercise == "scaled_dot_product_attention":  # without weights, torch computes it

        def output_alone(*inputs: Any) -> Tensor:
            """Return the output of the wrong function, without the weights."""
            output, _ = wrong(*inputs)
            return output

        patched[sys.modules["course_lib.multi_head"]]["attention_output"] = output_alone
    with ExitStack() as stack:
        for module, names in patched.items():
            stack.enter_context(mock.patch.multiple(module, **names))
        yield


def build(mistake: Mistake | None, config: ReversalConfig, **other: Any) -> nn.Module:
    """Build the model, wrong in one definition; call it within ``planted``."""
    torch.manual_seed(config.seed)
    model = transformer.Transformer(config.of_model(VOCAB, **other))
    if mistake is not None and mistake.exercise == "LayerNorm":  # which the model takes from torch
        for module in list(model.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.LayerNorm):
                    setattr(module, name, mistake.implementation(config.d_model))
    return model


class _Gradients:
    """Stand in for the optimizer of ``training_step``, and keep the gradients that it would use."""

    def __init__(self, model: nn.Module) -> None:
        self.parameters = list(model.parameters())
        self.found: list[Tensor | None] = [None] * len(self.parameters)
        self.param_groups = [{"lr": 0.0}]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Keep the gradients of now."""
        self.found = [None if p.grad is None else p.grad.clone() for p in self.parameters]


def loss_of_step(model: nn.Module, src: Tensor, tgt: Tensor) -> Tensor:
    """Return the loss of ``training_step``; its gradients are those with which it would step."""
    before = [p.grad for p in model.parameters()]
    loss, found = gradients_of_step(model, src, tgt)
    for parameter, grad in zip(model.parameters(), before, strict=True):
        parameter.grad = grad
    pairs = zip(model.parameters(), found, strict=True)
    line = sum(((p * g).sum() for p, g in pairs if g is not None), torch.zeros(()))
    return loss + line - line.detach()


def gradients_of_step(
    model: nn.Module, src: Tensor, tgt: Tensor
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the loss of ``training_step``, and the gradients with which it would step."""
    stand_in = _Gradients(model)
    with torch.enable_grad():
        loss = training.translation_loss(model, src, tgt, pad_id=PAD, smoothing=SMOOTHING)
        total = training.training_step(model, stand_in, [loss], rate=1.0)
    return total.detach(), stand_in.found


def write(model: nn.Module, src: Tensor) -> Tensor:
    """Decode greedily."""
    options = dict(bos_id=BOS, eos_id=EOS, max_new_tokens=8, use_cache=False)
    return decoding.greedy_decode(model, src, **options)


class Reverser(Pipeline):
    """A model that writes digits backwards; it has no tokenizer."""

    what = "a model that writes digits backwards"
    config_class = ReversalConfig
    model_class = transformer.Transformer
    tokenizer_class = str

    def vocabulary(self) -> str:
        """Return nothing: ids are digits."""
        return ""


class Reversal(Task):
    """Train a model, wrong in one definition, to write digits backwards.

    Args:
        config: All hyperparameters.
        mistake: What is wrong; ``None`` for the right model.
    """

    pipeline_class = Reverser

    def __init__(self, config: ReversalConfig, mistake: Mistake | None = None) -> None:
        self.pipeline = Reverser(build(mistake, config), "", config)
        self.steps, self.checksum = config.steps, 0
        generator = torch.Generator().manual_seed(1_000 + config.seed)
        self.learned = reversals(config.batch_size * 50, generator)
        self.test = reversals(TEST, generator)

    def rate(self, step: int) -> float:
        """Return the paper's learning rate, times a number."""
        c = self.pipeline.config
        return c.rate_scale * training.warmup_inverse_sqrt(step, c.d_model, c.warmup_steps)

    def is_measured(self, step: int) -> bool:
        """Measure at the end only."""
        return step == self.steps

    def batches(self, step: int) -> tuple[Tensor, ...]:
        """Return the next rows, in turn."""
        size = self.pipeline.config.batch_size
        rows = torch.arange(size) + step * size
        return tuple(ids[rows % len(ids)] for ids in self.learned)

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return a loss with the gradients of chapter 11's ``training_step``."""
        return loss_of_step(model, *batch)

    def measure(self, pipeline: Reverser, step: int) -> dict[str, float]:
        """Measure on test rows: the loss as it is trained, teacher-forced accuracy, exact match."""
        src, tgt = self.test
        model = pipeline.model.eval()
        loss = loss_of_step(model, src, tgt).item()
        with torch.no_grad():
            right = model(src, tgt[:, :-1]).argmax(-1) == tgt[:, 1:]  # (B, T)
            written = write(model, src)  # (B, T)
        real = tgt[:, 1:] != PAD
        wanted = tgt[:, 1:][:, : written.size(1)]
        whole = (written[:, : wanted.size(1)] == wanted).all(1) & (wanted == EOS).any(1)
        return {
            "val_loss": loss,
            "accuracy": right[real].float().mean().item(),
            "exact_match": whole.float().mean().item(),
        }


@torch.random.fork_rng()
def fingerprint(mistake: Mistake | None, **other: Any) -> list[Tensor]:
    """Return what a model gives: logits in both modes, loss, gradients, and what it writes."""
    with planted(mistake):
        model = build(mistake, ReversalConfig(), **other)
        src, tgt = reversals(8, torch.Generator().manual_seed(0))
        src, tgt = src.roll(1, dims=1), tgt  # some padding stands in front
        found = [model.eval()(src, tgt[:, :-1]), write(model, src)]
        torch.manual_seed(0)
        found.append(model.train()(src, tgt[:, :-1]))
        torch.manual_seed(0)
        loss = loss_of_step(model, src, tgt)
        loss.backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        return [x.detach() for x in (*found, loss, *grads)]


@cache
def right_fingerprint(**other: Any) -> list[Tensor]:
    """Return what the right model gives."""
    return fingerprint(None, **other)


def changes(mistake: Mistake, **other: Any) -> str:
    """Say what a mistake does to the model.

    ``"nothing"``, ``"numbers"``, ``"rate"`` if to the learning rate only, or which error it raises.

    Args:
        mistake: Of an exercise of this model.
        **other: What differs from the paper's choices.
    """
    if mistake.exercise == "warmup_inverse_sqrt":
        return "rate"
    right = right_fingerprint(**other)
    try:
        wrong = fingerprint(mistake, **other)
    except Exception as error:  # whatever a wrong model raises is what it does
        return type(error).__name__
    if [x.shape for x in right] != [x.shape for x in wrong]:
        return "numbers"
    alike = (torch.allclose(a, b, atol=1e-5, rtol=1e-4) for a, b in zip(right, wrong, strict=True))
    return "nothing" if all(alike) else "numbers"


def probed(mistake: Mistake | None, **other: Any) -> list[str]:
    """Return the names of the probes that see a mistake, without any other model beside it."""
    with planted(mistake):
        model = build(mistake, ReversalConfig(), **other)
        more = dict(vocab_size=VOCAB, pad_id=PAD, bos_id=BOS)
        more["dropout"] = other.get("dropout", DROPOUT)
        try:
            results = probes.probe(model, loss=loss_of_step, generate=write, **more)
        except ValueError:
            return ["call"]
    return [result.name for result in results if not result.passed]


def mutants() -> list[Mistake]:
    """Return the known mistakes of 01 to 11 whose definitions this model uses."""
    names = (n for n in exercises() if exercise(n).module in CHAPTERS and n not in ELSEWHERE)
    return [mistake for name in names for mistake in known_mistakes(name)]


def seen_entry(mistake: Mistake | None) -> Entry:
    """Return what a mistake does to the paper's model, or else to another, and who sees it."""
    if mistake is None:
        return {"exercise": "", "mistake": "", "paper": "nothing", "probes": []}
    entry = {"exercise": mistake.exercise, "mistake": mistake.name, "paper": changes(mistake)}
    if entry["paper"] != "nothing":
        return entry | {"probes": probed(mistake)}
    other = changes(mistake, **OTHER)
    seen = probed(mistake, **OTHER) if other != "nothing" else []
    return entry | {"other": other, "probes": seen}


def train_one(mistake: Mistake | None, config: ReversalConfig) -> dict[str, Any]:
    """Train a model, and return what it came to, or what stopped it."""
    with planted(mistake), TemporaryDirectory() as folder, torch.random.fork_rng():
        try:
            task = Reversal(config, mistake)
            state = TrainState(task, task.pipeline.model, task.optimizer())
            train(state, Path(folder))
        except Exception as error:  # whatever a wrong model raises is its outcome
            return {"outcome": type(error).__name__}
        names = ("val_loss", "accuracy", "exact_match")
        return {"outcome": "trains", **{name: round(state.history[-1][name], 4) for name in names}}


def record(seeds: Sequence[int], steps: int, file: Path, tell: Callable[[str], None]) -> None:
    """Probe and train what the record lacks, and add each as soon as it is done.

    A mistake that does nothing in the paper's model, or raises an error, is not trained.

    Args:
        seeds: Of the training runs.
        steps: Of each training run.
        file: Of the record; a run that was stopped continues with it.
        tell: Called with a line for each.
    """
    forget_changed(file)
    for seed in seeds:
        for mistake in [None, *mutants()]:
            entry = find(file, mistake)
            if entry is None:
                entry = {**seen_entry(mistake), "edits": edits(mistake), "runs": []}
                add_entry(file, entry, _which)
            which = {"seed": seed, "steps": steps}
            done = any(which.items() <= run.items() for run in entry["runs"])
            if not done and (mistake is None or entry["paper"] in ("numbers", "rate")):
                run = which | train_one(mistake, ReversalConfig(seed=seed, steps=steps))
                entry["runs"].append(run)
                add_entry(file, entry, _which)
                tell(" ".join(map(str, [*_which(entry), *run.values()])))


def forget_changed(file: Path) -> None:
    """Remove the entries of mistakes that are unknown or whose edits are not those recorded."""
    today = {tuple(_key(mistake)): edits(mistake) for mistake in [None, *mutants()]}
    kept = []
    for entry in read_entries(file):
        now = today.get(tuple(_which(entry)))
        if now is not None and entry.setdefault("edits", now) == now:
            kept.append(entry)
    write_entries(file, kept)


def edits(mistake: Mistake | None) -> int:
    """Return a checksum of the edits of a mistake."""
    return crc32(repr(mistake and mistake.edits).encode())


def find(file: Path, mistake: Mistake | None) -> Entry | None:
    """Return the entry of a mistake, or of the right model."""
    return next((e for e in read_entries(file) if _which(e) == _key(mistake)), None)


def _key(mistake: Mistake | None) -> list[str]:
    """Return what tells the entry of a mistake from all others."""
    return ["", ""] if mistake is None else [mistake.exercise, mistake.name]


def _which(entry: Entry) -> list[str]:
    """Return what tells two entries apart."""
    return [entry["exercise"], entry["mistake"]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Probe and train what the record lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    parser.add_argument("--steps", type=whole_from_one, default=ReversalConfig.steps)
    parser.add_argument("--file", type=Path, default=RECORD, help="a record of your own")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    record(options.seeds, options.steps, options.file, tell=print)


if __name__ == "__main__":
    main()
