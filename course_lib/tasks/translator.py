"""A translator: a model and its tokenizer, what they are made from, and text in, text out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from course_lib.data import LANGUAGES, Tokenizer, pad_rows
from course_lib.decoding import greedy_decode
from course_lib.evaluation import exact_match
from course_lib.trainer.options import check_above_zero, check_between, check_from_one
from course_lib.training import warmup_cooldown
from course_lib.transformer import Transformer, TransformerConfig

COUNTS = (
    *("num_pairs", "vocab_size", "batch_size", "steps", "warmup_steps", "cooldown_steps"),
    *("d_model", "num_heads", "num_layers", "d_ff", "max_len", "val_every"),
)


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig:
    """Hold the hyperparameters of a translator of number words.

    Args:
        to: The language it writes, one of ``data.LANGUAGES``.
        seed: Decides the training numbers, the first weights, and the order of the batches.
        num_pairs: Numbers to learn from.
        vocab_size: Subword tokens of the shared vocabulary.
        batch_size: Sentences in a step.
        steps: The last step.
        warmup_steps: The step at which the learning rate peaks.
        cooldown_steps: Over how many of the last steps it goes down to zero; 1 for none.
        rate_scale: The paper's learning rate times this.
        smoothing: Label smoothing, in [0, 1].
        d_model: Width of the vectors.
        num_heads: Heads of each attention.
        num_layers: Depth of the encoder, and of the decoder.
        d_ff: Features inside each feed-forward sub-layer.
        dropout: Probability of dropout in the paper's places, in [0, 1].
        max_len: Longest sequence, in tokens.
        bfloat16: Whether matrix products are computed in it while training.
        val_every: After how many steps the loss on val is measured.

    Raises:
        ValueError: If there is no such language, a size or count is below 1, the scale is no
            number above 0, or a probability is not in [0, 1].
    """

    to: str = "de"
    seed: int = 0
    num_pairs: int = 15_000
    vocab_size: int = 200
    batch_size: int = 64
    steps: int = 450
    warmup_steps: int = 50
    cooldown_steps: int = 100
    rate_scale: float = 0.15
    smoothing: float = 0.1
    d_model: int = 128
    num_heads: int = 4
    num_layers: int = 2
    d_ff: int = 512
    dropout: float = 0.0
    max_len: int = 64
    bfloat16: bool = False
    val_every: int = 50

    def __post_init__(self) -> None:
        if self.to not in LANGUAGES:
            raise ValueError(f"to={self.to!r} is none of {', '.join(LANGUAGES)}")
        check_from_one(self, *COUNTS)
        check_above_zero(self, "rate_scale")
        check_between(self, 0, 1, "smoothing", "dropout")

    def of_model(self, vocab_size: int) -> TransformerConfig:
        """Return the hyperparameters of the model."""
        return model_config(self, vocab_size)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step."""
        return warmup_cooldown(
            step,
            self.d_model,
            self.warmup_steps,
            steps=self.steps,
            scale=self.rate_scale,
            cooldown_steps=self.cooldown_steps,
        )


SIZES = {
    "course": {},
    "smoke": dict(num_pairs=300, vocab_size=80, d_model=16, d_ff=32, num_layers=1, steps=60),
}


def model_config(numbers: Any, vocab_size: int) -> TransformerConfig:
    """Build the configuration of a model that reads and writes with one vocabulary.

    Args:
        numbers: What has ``d_model``, ``num_heads``, ``num_layers``, ``d_ff``, ``dropout`` and
            ``max_len``; encoder and decoder are equally deep.
        vocab_size: Tokens of the vocabulary.
    """
    return TransformerConfig(
        src_vocab_size=vocab_size,
        tgt_vocab_size=vocab_size,
        d_model=numbers.d_model,
        num_heads=numbers.num_heads,
        num_encoder_layers=numbers.num_layers,
        num_decoder_layers=numbers.num_layers,
        d_ff=numbers.d_ff,
        dropout=numbers.dropout,
        max_len=numbers.max_len,
        pad_id=Tokenizer.pad_id,
    )


@dataclass(frozen=True)
class Translator:
    """Put a model and its tokenizer together: text in, text out.

    Args:
        model: The ``Transformer``.
        tokenizer: What it reads and writes with.
        config: What both were made from.
    """

    model: Transformer
    tokenizer: Tokenizer
    config: Any
    what: ClassVar[str] = "a translator of number words"
    config_class: ClassVar[type] = TranslatorConfig

    def facts(self) -> dict[str, Any]:
        """Return all but the weights."""
        return {"config": asdict(self.config), "tokenizer": self.tokenizer.to_json()}

    @classmethod
    def unlearned(cls, facts: dict[str, Any]) -> "Translator":
        """Build a translator from its facts, all but the weights."""
        config = cls.config_class(**facts["config"])
        tokenizer = Tokenizer(facts["tokenizer"])
        return cls(Transformer(config.of_model(len(tokenizer))), tokenizer, config)

    @property
    def device(self) -> torch.device:
        """Say where the model is."""
        return next(self.model.parameters()).device

    def source_ids(self, texts: Sequence[str]) -> Tensor:
        """Turn B texts into padded ids ``(B, S)``.

        Raises:
            ValueError: If there is no text, or one is empty.
        """
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                raise ValueError(f"text {number} of {len(texts)} is empty: nothing to translate")
        ids = pad_rows([self.tokenizer.encode(text) for text in texts], self.tokenizer.pad_id)
        return ids.to(self.device)

    def translate(self, texts: Sequence[str], *, use_cache: bool = True) -> list[str]:
        """Translate every text by greedy decoding, all of them at once.

        Args:
            texts: From 1.
            use_cache: As in ``greedy_decode``.

        Raises:
            ValueError: If a text is empty or longer than the model reads.
        """
        ids = greedy_decode(
            self.model,
            self.source_ids(texts),
            bos_id=self.tokenizer.bos_id,
            eos_id=self.tokenizer.eos_id,
            use_cache=use_cache,
        )
        return [self.tokenizer.decode(row) for row in ids]


def translated_exactly(
    translator: Translator, pairs: Sequence[tuple[str, str]], batch: int = 250
) -> float:
    """Translate freely, and count the translations that are right to the last letter.

    Args:
        translator: Reads its own words back; it never sees the right answer.
        pairs: Source and right translation.
        batch: Sentences translated at once.

    Returns:
        The fraction of right translations, in [0, 1].

    Raises:
        ValueError: If there are no pairs.
    """
    if not pairs:
        raise ValueError("there are no pairs to translate and count")
    sources, targets = zip(*pairs, strict=True)
    chunks = [translator.translate(sources[i : i + batch]) for i in range(0, len(pairs), batch)]
    return exact_match([text for chunk in chunks for text in chunk], targets)
