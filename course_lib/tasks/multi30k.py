"""A translator of real sentences: its numbers, its vocabulary, its model, its score (§5, §6)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics import BLEU, CHRF
from torch import Tensor

from course_lib.beam_search import beam_search
from course_lib.data import Tokenizer, draw_pairs, pad_rows
from course_lib.data.multi30k_files import load_multi30k
from course_lib.tasks.numbers import model_config
from course_lib.trainer.batch_sampler import TokenBatches
from course_lib.trainer.options import check_above_zero, check_between, check_from_one
from course_lib.training import warmup_inverse_sqrt
from course_lib.transformer import Transformer, TransformerConfig

Pairs = list[tuple[str, str]]
TEST = "test_2016_flickr"
COUNTS = (
    *("vocab_size", "tokens", "pool_size", "epochs", "warmup_steps"),
    *("d_model", "num_heads", "num_layers", "d_ff", "max_len"),
)


@dataclass(frozen=True, kw_only=True)
class RealConfig:
    """Hold every number that defines a translator of real sentences and its training.

    Args:
        task: ``"multi30k"``, or ``"numbers"``: number words, generated, for a quick try.
        direction: ``"de-en"`` or ``"en-de"``.
        seed: Decides the first weights, the order of the batches, and what dropout drops.
        vocab_size: Pieces of the shared vocabulary, learned from the training text.
        num_pairs: Pairs to learn from, the first ones, and of val at most as many; 0 for all (in
            ``"numbers"``, 300 and 60).
        tokens: Most places in a batch, source and target, padding included.
        pool_size: Pairs sorted by length together.
        epochs: How often every pair is seen.
        warmup_steps: The step at which the learning rate peaks.
        peak_rate: The learning rate there; after it, it falls as 1/√step (§5.3).
        cooldown: The last share of all steps, in which it also falls to zero in a line.
        smoothing: Label smoothing, in [0, 1].
        bfloat16: Whether matrix products are computed in it.
        d_model: Width of the vectors.
        num_heads: Heads of each attention.
        num_layers: Depth of the encoder, and of the decoder.
        d_ff: Features inside each feed-forward sub-layer.
        dropout: Share dropped in the paper's places, in [0, 1].
        norm_first: ``False`` as the paper (post-norm), ``True`` for pre-norm.
        max_len: Longest sequence, in tokens.

    Raises:
        ValueError: If there is no such task or direction, a size or count is below 1
            (``num_pairs``: below 0), the peak rate is no number above 0, or a share is not in
            [0, 1].
    """

    task: str = "multi30k"
    direction: str = "de-en"
    seed: int = 0
    vocab_size: int = 8_000
    num_pairs: int = 0
    tokens: int = 4_096
    pool_size: int = 5_000
    epochs: int = 28
    warmup_steps: int = 400
    peak_rate: float = 2e-3
    cooldown: float = 0.2
    smoothing: float = 0.1
    bfloat16: bool = True
    d_model: int = 256
    num_heads: int = 8
    num_layers: int = 3
    d_ff: int = 512
    dropout: float = 0.3
    norm_first: bool = True
    max_len: int = 128

    def __post_init__(self) -> None:
        if self.task not in ("multi30k", "numbers"):
            raise ValueError(f"task={self.task!r} is neither 'multi30k' nor 'numbers'")
        if self.direction not in ("de-en", "en-de"):
            raise ValueError(f"direction={self.direction!r} is neither 'de-en' nor 'en-de'")
        check_from_one(self, *COUNTS)
        check_above_zero(self, "peak_rate")
        check_between(self, 0, 1, "cooldown", "smoothing", "dropout")
        if self.num_pairs < 0:
            raise ValueError(f"num_pairs={self.num_pairs} must be from 1, or 0 for all")

    def of_model(self, vocab_size: int) -> TransformerConfig:
        """Return the part of the numbers that the model is built from."""
        return replace(model_config(self, vocab_size), norm_first=self.norm_first)

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, from 1, of so many."""
        shape = (self.d_model, self.warmup_steps)
        share = warmup_inverse_sqrt(step, *shape) / warmup_inverse_sqrt(self.warmup_steps, *shape)
        cooling = min(1.0, (steps + 1 - step) / max(1.0, self.cooldown * steps))
        return self.peak_rate * share * cooling


SIZES = {
    "smoke": dict(
        task="numbers", vocab_size=150, tokens=1_000, epochs=30, warmup_steps=40, peak_rate=4e-3,
        d_model=64, num_heads=4, num_layers=2, d_ff=256, dropout=0.0, norm_first=True,
        cooldown=0.0, bfloat16=False,
    ),
    "short": dict(epochs=10, warmup_steps=300, dropout=0.1),
    "laptop": {},
    "gpu": dict(tokens=16_384, epochs=80, d_ff=1_024),
}  # fmt: skip


def read_pairs(config: RealConfig, split: str, folder: Path | str | None = None) -> Pairs:
    """Read the pairs of a split: ``"train"``, ``"val"``, or ``"test_2016_flickr"``.

    Raises:
        ValueError: As ``load_multi30k``.
    """
    if config.task == "multi30k":
        pairs = load_multi30k(split, direction=config.direction, folder=folder)
        return pairs if split == TEST else pairs[: config.num_pairs or None]
    name = {"train": "train", "val": "valid"}.get(split, "test")
    pairs = draw_pairs(name, config.num_pairs or 300 if split == "train" else 60)
    return pairs if config.direction == "en-de" else [pair[::-1] for pair in pairs]


@dataclass(frozen=True)
class RealTranslator:
    """Put a model and its tokenizer together: text in, text out.

    Args:
        model: The ``Transformer``.
        tokenizer: What it reads and writes with.
        config: What both were made from.
    """

    model: Transformer
    tokenizer: Tokenizer
    config: RealConfig
    what = "a translator of sentences"

    def facts(self) -> dict[str, Any]:
        """Return all but the weights."""
        return {"config": asdict(self.config), "tokenizer": self.tokenizer.to_json()}

    @classmethod
    def unlearned(cls, facts: dict[str, Any]) -> "RealTranslator":
        """Build a translator from its facts, all but the weights."""
        config = RealConfig(**facts["config"])
        tokenizer = Tokenizer(facts["tokenizer"])
        return cls(Transformer(config.of_model(len(tokenizer))), tokenizer, config)

    @property
    def device(self) -> torch.device:
        """Say where the model is."""
        return self.model.output.weight.device

    def rows(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Turn pairs into source ids, and target ids from bos to eos.

        Raises:
            ValueError: If a text is longer than the model reads.
        """
        encode = self.tokenizer.encode
        encode_target = self.tokenizer.encode_target
        rows = [(encode(source), encode_target(target)) for source, target in pairs]
        longest = max(max(len(source), len(target) - 1) for source, target in rows)
        if longest > self.config.max_len:
            raise ValueError(f"{longest} tokens: this model reads {self.config.max_len}")
        return rows

    def translate(
        self, texts: Sequence[str], *, beam_size: int = 4, alpha: float = 0.6, tokens: int = 4_096
    ) -> list[str]:
        """Translate texts by beam search, those of about the same length at once.

        Args:
            texts: From 1.
            beam_size: 1 is greedy.
            alpha: The length penalty's exponent (§6.1).
            tokens: Most source places computed at once, beams counted.

        Raises:
            ValueError: If a text is empty, or longer than the model reads, or ``beam_size`` is
                below 1.
        """
        if beam_size < 1:
            raise ValueError(f"{beam_size=} must be at least 1")
        ids = [self.tokenizer.encode(text) for text in texts]
        wrong = [
            t for t, i in zip(texts, ids, strict=True) if not 0 < len(i) <= self.config.max_len
        ]
        if wrong:
            raise ValueError(f"a text has from 1 to {self.config.max_len} tokens, not {wrong[0]!r}")
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        written: dict[int, str] = {}
        while order:
            size = max(1, tokens // (beam_size * len(ids[order[-1]])))  # longest first
            chunk = order[-size:]
            order = order[:-size]
            src = pad_rows([ids[place] for place in chunk], self.tokenizer.pad_id)  # (B, S)
            for place, row in zip(chunk, self._search(src, beam_size, alpha), strict=True):
                written[place] = self.tokenizer.decode(row[: most_tokens(len(ids[place]))])
        return [written[place] for place in range(len(ids))]

    def _search(self, src: Tensor, beam_size: int, alpha: float) -> Tensor:
        """Return the ids ``(B, T)`` of the best translations found."""
        limit = min(self.config.max_len, most_tokens(src.size(1)))
        ids, _ = beam_search(
            self.model, src.to(self.device), bos_id=self.tokenizer.bos_id,
            eos_id=self.tokenizer.eos_id, beam_size=beam_size, alpha=alpha, max_new_tokens=limit,
        )  # fmt: skip
        return ids[:, 0].cpu()


def most_tokens(source_tokens: int) -> int:
    """Say after how many tokens a translation that finds no end is cut off."""
    return 2 * source_tokens + 10


def new_translator(config: RealConfig, pairs: Sequence[tuple[str, str]]) -> RealTranslator:
    """Make what a training starts from: a vocabulary of the training pairs, and a new model."""
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.learn(
        texts, config.vocab_size, split_punctuation=config.task == "multi30k"
    )
    torch.manual_seed(config.seed)
    return RealTranslator(Transformer(config.of_model(len(tokenizer))), tokenizer, config)


def token_batches(translator: RealTranslator, pairs: Sequence[tuple[str, str]]) -> TokenBatches:
    """Make the batches that a training draws from."""
    config = translator.config
    return TokenBatches(
        translator.rows(pairs),
        config.tokens,
        pad_id=translator.tokenizer.pad_id,
        seed=config.seed,
        pool_size=config.pool_size,
    )


def score(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
    """Compare translations with one reference each, by sacrebleu.

    Returns:
        ``bleu`` and ``chrf`` as sacrebleu measures them (cased, 13a), ``bleu_lower`` on
        lower-cased text, and the signatures.
    """
    result: dict[str, float | str] = {}
    metrics = {"bleu": BLEU(), "bleu_lower": BLEU(lowercase=True), "chrf": CHRF()}
    for name, metric in metrics.items():
        result[name] = metric.corpus_score(list(hypotheses), [list(references)]).score
        result[f"{name}_signature"] = str(metric.get_signature())
    return result
