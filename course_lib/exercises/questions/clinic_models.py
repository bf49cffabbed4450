"""Small models with planted mistakes, and a task that they learn in two seconds."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.data import pad_rows
from course_lib.exercises.checking.mistake import Mistake, course_source, define
from course_lib.probes import ProbedModel, prepare_model
from course_lib.transformer import TransformerConfig

PAD, BOS, EOS, VOCABULARY = 0, 1, 2, 10  # seven digits, 3 to 9, and the special ids
LENGTHS = (1, 2, 3)  # digits in a sequence; the task is to write them in reverse
STEPS, ROWS, RATE = 200, 64, 6e-3
LOSS = ("exercises.questions.clinic_models", "sequence_loss")
PARTS = (
    ("multi_head", "attention_output"), ("multi_head", "MultiHeadAttention"),
    ("masks", "padding_mask"), ("positions", "PositionalEncoding"), ("encoder", "EncoderLayer"),
    ("encoder", "Encoder"), ("decoder", "DecoderLayer"), ("decoder", "Decoder"),
    ("transformer", "Transformer"), ("decoding", "greedy_decode"), LOSS,
)  # fmt: skip

Line = tuple[str, str]
TRAINED: dict[tuple, tuple[dict[str, Tensor], list[float]]] = {}


def sequence_loss(model: nn.Module, src: Tensor, tgt: Tensor) -> Tensor:
    """Return the mean loss, in nats, for predicting the next token at each target position."""
    tgt_in = tgt[:, :-1]  # (B, T)
    tgt_out = tgt[:, 1:]  # (B, T)
    logits = model(src, tgt_in)  # (B, T, V)
    return F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten(), ignore_index=PAD)


def fixed(mistakes: Sequence[Mistake], lines: Sequence[Line] = ()) -> dict[str, str]:
    """Return the source of each wrong definition, with some lines replaced.

    Raises:
        ValueError: If a line to be replaced is not in any definition.
    """
    texts = {mistake.exercise: mistake.source for mistake in mistakes}
    for old, new in lines:
        if not any(old in text for text in texts.values()):
            raise ValueError(f"there is no {old!r} in {' or '.join(texts)}")
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    return texts


def rows_of(length: int, seed: int, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """Sample sources ``(B, S)`` of equal length, with their targets ``(B, S + 2)``."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(3, VOCABULARY, (rows, length), generator=generator)
    tgt = F.pad(F.pad(src.flip(1), (1, 0), value=BOS), (0, 1), value=EOS)
    return src, tgt


def mixed_rows(seed: int = 10**6) -> tuple[Tensor, list[list[int]]]:
    """Sample padded sources of all lengths, with the correct answers."""
    drawn = [rows_of(length, seed + length, 16) for length in LENGTHS]
    src = pad_rows([row for src, _ in drawn for row in src.tolist()], PAD)
    return src, [row[1:-1] for _, tgt in drawn for row in tgt.tolist()]


def one_length(step: int) -> tuple[Tensor, Tensor]:
    """Sample the batch for a step; all rows have the same length, so there is no padding."""
    return rows_of(LENGTHS[step % len(LENGTHS)], step)


class Patient:
    """A model built from ``PARTS``, with mistakes in some of them and with some lines replaced."""

    def __init__(self, mistakes: Sequence[Mistake] = (), lines: Sequence[Line] = ()) -> None:
        wrong = fixed(mistakes, lines)
        right = {name: course_source(module, name) for module, name in PARTS}
        names: dict[str, Any] = {}
        for module, name in PARTS:  # each definition uses the others
            text = wrong.get(name, right[name])
            names[name] = define(text, module, name, f"<clinic: {name}>", names)
        self.parts = SimpleNamespace(**names)
        self.texts = tuple(sorted((n, t) for n, t in wrong.items() if t != right[n]))

    def fresh(self, weights: Mapping[str, Tensor] | None = None) -> nn.Module:
        """Build the model with the given weights, or with its initial weights."""
        config = TransformerConfig(
            src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY, d_model=48, num_heads=4,
            num_encoder_layers=1, num_decoder_layers=1, d_ff=96, dropout=0.0, max_len=64,
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = self.parts.Transformer(config)
        if weights is not None:
            model.load_state_dict(weights)
        return model

    @torch.enable_grad()
    def fit(
        self,
        model: nn.Module,
        steps: int = STEPS,
        batch: Callable[[int], tuple[Tensor, Tensor]] = one_length,
    ) -> list[float]:
        """Train a model, and return the losses."""
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), fused=True)
        losses = []
        model.train()
        for step in range(steps):
            warm, left = (step + 1) / 10, 1.2 * (1 - step / steps)
            optimizer.param_groups[0]["lr"] = RATE * min(1.0, warm, left)
            loss = self.parts.sequence_loss(model, *batch(step))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        return losses

    def trained(self) -> tuple[nn.Module, list[float]]:
        """Return the trained model and its losses; each model is trained only once."""
        if self.texts not in TRAINED:
            model = self.fresh()
            losses = self.fit(model)
            TRAINED[self.texts] = model.state_dict(), losses
        weights, losses = TRAINED[self.texts]
        return self.fresh(weights).eval(), losses

    def with_good_weights(self) -> nn.Module:
        """Return the model with the weights of a correct, trained model."""
        return self.fresh(Patient().trained()[0].state_dict()).eval()

    def write(self, model: nn.Module, src: Tensor) -> list[list[int]]:
        """Decode greedily, and return each row's tokens before its end token."""
        rows = decoder(self.parts, 7)(model, src).tolist()
        return [[*row, EOS][: [*row, EOS].index(EOS)] for row in rows]

    def fraction_right(self, model: nn.Module, src: Tensor, wanted: Sequence[list[int]]) -> float:
        """Return the fraction of sources that the model translates without a mistake."""
        pairs = zip(self.write(model, src), wanted, strict=True)
        return sum(mine == right for mine, right in pairs) / len(wanted)


def decoder(parts: SimpleNamespace, most: int) -> Callable[[nn.Module, Tensor], Tensor]:
    """Return a function that decodes sources greedily and generates at most ``most`` tokens."""
    ids = {"bos_id": BOS, "eos_id": EOS}
    return partial(parts.greedy_decode, max_new_tokens=most, use_cache=False, **ids)


def to_probe(parts: SimpleNamespace, model: nn.Module) -> ProbedModel:
    """Prepare a model for the probes, with the loss and decoding functions from ``parts``."""
    return prepare_model(
        model,
        vocab_size=VOCABULARY,
        pad_id=PAD,
        bos_id=BOS,
        loss=parts.sequence_loss,
        generate=decoder(parts, 4),
    )
