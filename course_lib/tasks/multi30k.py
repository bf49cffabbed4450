"""Real sentences: a translator's vocabulary, batches, loss, search and scores (§5, §6)."""

import zlib
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from course_lib.batching import TokenBatches
from course_lib.beam_search import beam_search
from course_lib.data import Tokenizer, draw_pairs
from course_lib.data.multi30k_files import load_multi30k
from course_lib.evaluation import corpus_scores
from course_lib.interop import marian
from course_lib.support.corpora import DIRECTIONS, SPLITS
from course_lib.tasks.numbers import TranslationConfig, Translator
from course_lib.tasks.task_sizes import MULTI30K_SIZES
from course_lib.trainer.chunked_loss import ChunkedLoss
from course_lib.trainer.options import LARGEST
from course_lib.trainer.task import Task
from course_lib.training import warmup_inverse_sqrt
from course_lib.transformer import Transformer, TransformerConfig

Pairs = list[tuple[str, str]]
TEST = SPLITS[-1]
SIZES = {name: size.changes for name, size in MULTI30K_SIZES.items()}


@dataclass(frozen=True, kw_only=True)
class RealConfig(TranslationConfig):
    """Hyperparameters of a model that translates real sentences."""

    choices = {"task": ("multi30k", "numbers"), "direction": DIRECTIONS}
    ranges = TranslationConfig.ranges | {
        "num_pairs": (0, LARGEST),
        "epochs": (1, 9_999),  # the four digits of their folders' names
        "cooldown": (0.0, 1.0),
    }
    task: str = "multi30k"  #: or "numbers": number words, generated, for a quick try
    direction: str = next(iter(DIRECTIONS))  #: or "en-de"
    vocab_size: int = 8_000  #: subword tokens of the shared vocabulary
    num_pairs: int = 0  #: first pairs of train and val to use; 0: all (number words: 300, 60)
    tokens: int = 4_096  #: maximum positions in a batch: source, target and padding
    pool_size: int = 5_000  #: pairs sorted by length together
    epochs: int = 28  #: passes over the training pairs
    warmup_steps: int = 400  #: the step at which the learning rate peaks
    peak_rate: float = 2e-3  #: the highest learning rate, which then falls as 1/√step (§5.3)
    cooldown: float = 0.2  #: the last fraction of all steps, in which the rate falls to zero
    bfloat16: bool = True  #: whether matrix products are computed in bfloat16
    d_model: int = 256  #: width of the vectors
    num_heads: int = 8  #: in each attention layer
    num_layers: int = 3  #: depth of the encoder, and of the decoder
    dropout: float = 0.3  #: dropout probability, in [0, 1]
    norm_first: bool = True  #: True for pre-norm, False for the paper's post-norm
    max_len: int = 128  #: maximum sequence length, in tokens

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate for a step, counted from 1, in a run of ``steps`` steps."""
        shape = (self.d_model, self.warmup_steps)
        part = warmup_inverse_sqrt(step, *shape) / warmup_inverse_sqrt(self.warmup_steps, *shape)
        cooling = min(1.0, (steps + 1 - step) / max(1.0, self.cooldown * steps))
        return self.peak_rate * part * cooling


def read_pairs(config: RealConfig, split: str, folder: Path | None = None) -> Pairs:
    """Read the pairs of a split: ``"train"``, ``"val"``, or ``"test_2016_flickr"``."""
    if config.task == "multi30k":
        pairs = load_multi30k(split, direction=config.direction, folder=folder)
        return pairs if split == TEST else pairs[: config.num_pairs or None]
    name = {"train": "train", "val": "valid"}.get(split, "test")
    pairs = draw_pairs(name, config.num_pairs or 300 if split == "train" else 60)
    return pairs if config.direction == "en-de" else [pair[::-1] for pair in pairs]


class RealTranslator(Translator):
    """A translator of real sentences; see ``Translator``."""

    what = "a sentence translator"
    config_class = RealConfig
    config: RealConfig  # type: ignore[assignment]  # a sibling of the other translator's

    @classmethod
    def from_published(
        cls, path: Path | str, model_class: Callable[[TransformerConfig], Transformer] = Transformer
    ) -> Self:
        """Load a published Marian model and its tokenizer, using ``marian.from_pretrained``.

        Raises ValueError if the folder contains no Marian model, or no tokenizer.
        """
        model, tokenizer = marian.from_pretrained(path, model_class)
        if tokenizer is None:
            raise ValueError(f"{path} has no source.spm, the tokenizer that reads the sentences")
        return cls(model, tokenizer, model.config)  # type: ignore[arg-type]  # ours have the same

    def rows(self, pairs: Pairs) -> list[tuple[list[int], list[int]]]:
        """Turn pairs into source ids and target ids (from bos to eos); check their lengths."""
        rows = [(self.tokenizer.encode(s), self.tokenizer.encode_target(t)) for s, t in pairs]
        longest = max(max(len(source), len(target) - 1) for source, target in rows)
        if longest > self.config.max_len:
            raise ValueError(
                f"a sentence has {longest} tokens, but this model reads at most "
                f"{self.config.max_len}"
            )
        return rows

    def search(self, src: Tensor, **options: Any) -> Tensor:
        """Return the best ids ``(B, T)`` from ``beam_search``, at most 2 S + 10 per sentence."""
        pad_id = self.tokenizer.pad_id
        limits = (2 * (src != pad_id).sum(dim=1, keepdim=True) + 10).clamp(max=self.config.max_len)
        ids, _ = beam_search(
            self.model, src, bos_id=self.tokenizer.bos_id, eos_id=self.tokenizer.eos_id,
            max_new_tokens=int(limits.max()), **options,
        )  # fmt: skip
        late = torch.arange(ids.size(2), device=src.device) >= limits  # (B, T)
        return ids[:, 0].masked_fill(late, pad_id)


class Multi30k(Task[RealTranslator]):
    """The task of training a sentence translator, which reports after every epoch; see ``Task``."""

    name = "multi30k"
    sizes = SIZES
    variant = "direction"
    keep_last = 10
    pipeline_class = RealTranslator
    batches: TokenBatches

    def __init__(
        self, config: RealConfig, data: Path | None = None, pipeline: RealTranslator | None = None
    ) -> None:
        pairs = read_pairs(config, "train", data)
        if pipeline is None:
            texts = [text for pair in pairs for text in pair]
            real = config.task == "multi30k"
            tokenizer = Tokenizer.learn(texts, config.vocab_size, split_punctuation=real)
            pipeline = RealTranslator.new(config, tokenizer)
        self.pipeline = pipeline
        self.batches = TokenBatches(
            pipeline.rows(pairs),
            config.tokens,
            pad_id=pipeline.tokenizer.pad_id,
            seed=config.seed,
            pool_size=config.pool_size,
            epochs=config.epochs,
        )
        self.val = read_pairs(config, "val", data)
        self.positions = min(config.tokens, sum(map(sum, self.batches.lengths)))
        self.steps = self.batches.ends[-1]
        self.rate = partial(config.rate, steps=self.steps)
        self.checksum = zlib.crc32(str(self.batches.rows).encode())

    def training_module(self) -> nn.Module:
        """Return the module that computes a step's loss without storing all logits at once."""
        config = self.pipeline.config
        return ChunkedLoss(self.pipeline.model, config.smoothing, bfloat16=config.bfloat16)

    def is_measured(self, step: int) -> bool:
        """Return whether this is the last step of an epoch."""
        return step in self.batches.ends

    def measure(self, pipeline: RealTranslator, step: int) -> dict[str, float]:
        """Measure the loss on the validation split, and score greedy translations of it."""
        sources, references = zip(*self.val, strict=True)
        scores = corpus_scores(pipeline.translate(sources, beam_size=1), references)
        return {
            "epoch": bisect_left(self.batches.ends, step) + 1,
            "val_loss": val_loss(pipeline, self.val),
            **{name: value for name, value in scores.items() if isinstance(value, float)},
        }


@torch.no_grad()
def val_loss(translator: RealTranslator, pairs: Pairs) -> float:
    """Measure the teacher-forced loss on pairs, without smoothing or dropout, in nats per token."""
    batches = TokenBatches(translator.rows(pairs), 4_096, pad_id=translator.tokenizer.pad_id)
    loss = ChunkedLoss(translator.model.eval(), smoothing=0.0)
    total = 0.0
    for rows in batches.plan(1):
        total += loss(*batches.batch(rows)).item() * sum(batches.lengths[i][1] for i in rows)
    return total / sum(length for _, length in batches.lengths)
