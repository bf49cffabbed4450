"""Number words: how the chapters' translator is made, trained, kept, used and measured (§5)."""

import zlib
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from course_lib.batching import batch_by_tokens
from course_lib.data import (
    LANGUAGES,
    BatchMaker,
    Tokenizer,
    check_number_words,
    draw_pairs,
    pad_rows,
)
from course_lib.decoding import greedy_decode
from course_lib.evaluation import exact_match
from course_lib.trainer.checkpoint import QUOTED
from course_lib.trainer.hardware import one_thread
from course_lib.trainer.loop import start, train
from course_lib.trainer.options import LAST_SEED, LEAST, check_range, shared_fields, whole_from_one
from course_lib.trainer.run_folder import checkpoints_folder, find_checkpoint, read_kept
from course_lib.trainer.task import Pipeline, Task
from course_lib.training import translation_loss, warmup_cooldown
from course_lib.transformer import Transformer, TransformerConfig

VAL = 200  # numbers to measure the loss on
MODEL = ("d_model", "num_heads", "num_layers", "d_ff", "max_len", "vocab_size")


def model_config(numbers: Any, vocab_size: int) -> TransformerConfig:
    """Describe a model as deep on both sides, which reads and writes with one vocabulary."""
    return TransformerConfig(
        src_vocab_size=vocab_size,
        tgt_vocab_size=vocab_size,
        num_encoder_layers=numbers.num_layers,
        num_decoder_layers=numbers.num_layers,
        pad_id=Tokenizer.pad_id,
        **shared_fields(TransformerConfig, numbers),
    )


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig:
    """Hold the hyperparameters of a translator of number words.

    Raises:
        ValueError: If there is no such language, a size or count is below 1, the scale is no
            number above 0, or a probability is not in [0, 1].
    """

    to: str = "de"  #: the language it writes, one of ``data.LANGUAGES``
    seed: int = 0  #: decides the training numbers, the first weights, and the order of the batches
    num_pairs: int = 15_000  #: numbers to learn from
    vocab_size: int = 200  #: subword tokens of the shared vocabulary
    batch_size: int = 64  #: sentences in a step
    steps: int = 450  #: the last step
    warmup_steps: int = 50  #: the step at which the learning rate peaks
    cooldown_steps: int = 100  #: over so many last steps it goes down to zero; 1 for none
    rate_scale: float = 0.15  #: the paper's learning rate times this
    smoothing: float = 0.1  #: label smoothing, in [0, 1]
    d_model: int = 128  #: width of the vectors
    num_heads: int = 4  #: of each attention
    num_layers: int = 2  #: depth of the encoder, and of the decoder
    d_ff: int = 512  #: features inside each feed-forward sub-layer
    dropout: float = 0.0  #: its probability in the paper's places, in [0, 1]
    max_len: int = 64  #: longest sequence, in tokens
    bfloat16: bool = False  #: whether matrix products are computed in it while training
    val_every: int = 50  #: steps between two measurements of the loss on val

    def __post_init__(self) -> None:
        if self.to not in LANGUAGES:
            raise ValueError(f"to={self.to!r} is none of {', '.join(LANGUAGES)}")
        check_range(self, *MODEL, "num_pairs", "batch_size", "steps", "val_every")
        check_range(self, "warmup_steps", "cooldown_steps")
        check_range(self, "rate_scale", least=LEAST)
        check_range(self, "smoothing", "dropout", least=0.0, most=1.0)
        check_range(self, "seed", least=0, most=LAST_SEED)

    of_model = model_config

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""
        return warmup_cooldown(
            step,
            self.d_model,
            self.warmup_steps,
            steps=self.steps,
            scale=self.rate_scale,
            cooldown_steps=self.cooldown_steps,
        )


class Translator(Pipeline):
    """Put a ``Transformer`` and its ``Tokenizer`` together: text in, text out."""

    what = "a translator of number words"
    config_class: ClassVar[type] = TranslatorConfig
    model_class = Transformer
    tokenizer_class = Tokenizer

    def source_ids(self, texts: Sequence[str]) -> Tensor:
        """Turn B texts, from one, into padded ids ``(B, S)``.

        Raises:
            ValueError: If a text is empty, or longer than the model reads.
        """
        rows = [self.tokenizer.encode(text) for text in texts]
        most = self.config.max_len
        for text, row in zip(texts, rows, strict=True):
            if not text.strip() or len(row) > most:
                told = f"a text has words, and at most {most} tokens; this one has {len(row)}"
                raise ValueError(f"{told}: {text[:QUOTED]!r}")
        return pad_rows(rows, self.tokenizer.pad_id).to(self.device)

    def translate(self, texts: Sequence[str], *, tokens: int = 2_048, **how: Any) -> list[str]:
        """Translate texts, those of about the same length at once.

        Args:
            texts: In any order, which stays.
            tokens: Most source positions searched at once.
            **how: As ``search`` takes it.

        Raises:
            ValueError: As ``source_ids``.
        """
        lengths = [(len(self.tokenizer.encode(text)), 0) for text in texts]
        written = [""] * len(texts)
        for chunk in batch_by_tokens(lengths, max([(tokens, 0), *lengths])[0]):
            rows = self.search(self.source_ids([texts[place] for place in chunk]), **how)
            for place, row in zip(chunk, rows, strict=True):
                written[place] = self.tokenizer.decode(row)
        return written

    def search(self, src: Tensor, **how: Any) -> Tensor:
        """Return the ids ``(B, T)`` that ``greedy_decode`` writes, called with ``how``."""
        eos_id = self.tokenizer.eos_id
        return greedy_decode(self.model, src, bos_id=self.tokenizer.bos_id, eos_id=eos_id, **how)


def typed_text(options: Namespace) -> str:
    """Return the words of a command, with one space between two."""
    return " ".join(word for text in options.text for word in text.split())


class Numbers(Task):
    """Train a translator of number words; they are generated: no folder of data is read."""

    kind = Translator
    name = "numbers"
    takes = "half a minute of one CPU core"
    sizes = {
        "course": {},
        "smoke": dict(num_pairs=300, vocab_size=80, d_model=16, d_ff=32, num_layers=1, steps=60),
    }
    settings = {"to": dict(choices=LANGUAGES), "steps": dict(type=whole_from_one)}
    named = "to"
    threads = 1
    writing = {"text": dict(nargs="+", help='such as "three hundred forty-five"')}
    evaluating = {"--count": dict(type=whole_from_one, default=1000, help="of test numbers")}

    def __init__(
        self, config: TranslatorConfig, data: Any = None, pipeline: Translator | None = None
    ) -> None:
        pairs = draw_pairs("train", config.num_pairs, to=config.to, seed=config.seed)
        if pipeline is None:
            texts = dict.fromkeys(text for pair in pairs for text in pair)  # each once, in order
            pipeline = Translator.new(config, Tokenizer.learn(texts, config.vocab_size))
        self.pipeline = pipeline
        self.batches = BatchMaker(pairs, pipeline.tokenizer, config.batch_size, config.seed)
        self.val = BatchMaker(draw_pairs("valid", VAL, to=config.to), pipeline.tokenizer, VAL)(1)
        self.steps = config.steps
        self.checksum = zlib.crc32(str(self.batches.rows).encode())

    def loss(
        self, model: nn.Module, batch: tuple[Tensor, ...], smoothing: float | None = None
    ) -> Tensor:
        """Return the mean loss of a batch of source ``(B, S)`` and target ids ``(B, T + 1)``."""
        src, tgt = (ids.to(self.pipeline.device, non_blocking=True) for ids in batch)
        return translation_loss(
            model,
            src,
            tgt,
            pad_id=self.pipeline.tokenizer.pad_id,
            smoothing=self.pipeline.config.smoothing if smoothing is None else smoothing,
        )

    @torch.no_grad()
    def measure(self, pipeline: Translator, step: int) -> dict[str, float]:
        """Measure the loss on numbers of the validation split, without smoothing."""
        pipeline.model.eval()
        return {"val_loss": self.loss(pipeline.model, self.val, smoothing=0.0).item()}

    @staticmethod
    def write(pipeline: Translator, options: Namespace) -> str:
        """Translate a number, however it is typed."""
        text = typed_text(options).lower()
        check_number_words(text)
        return pipeline.translate([text])[0]

    @staticmethod
    def evaluate(pipeline: Translator, options: Namespace) -> dict[str, float]:
        """Count exact matches on numbers of the test split."""
        config = pipeline.config
        sources, wanted = zip(*draw_pairs("test", options.count, to=config.to), strict=True)
        exact = exact_match(pipeline.translate(sources), wanted)
        which = f"{config.to}, seed {config.seed}"
        print(f"{which}: exact match {exact:.3f} on {options.count} numbers of the test split")
        return {"exact_match": exact}


def folder_of(config: TranslatorConfig) -> Path:
    """Say where a translator is kept: under ``checkpoints/``, or under COURSE_CHECKPOINTS."""
    return checkpoints_folder(__file__) / Numbers.folder_name(config, "course")


def load_or_train(config: TranslatorConfig | None = None) -> Translator:
    """Return the trained translator; train it (half a minute) unless it is kept.

    The caller's random state and number of threads stay as they were.

    Args:
        config: Which one; the course's English–German one unless given.

    Raises:
        ValueError: If what is kept is unreadable, or was trained with other hyperparameters.
    """
    config = config or TranslatorConfig()
    out = folder_of(config)
    with torch.random.fork_rng(), one_thread():
        if find_checkpoint(out):
            translator, content = read_kept(Translator, out)
            if translator.config == config and content["step"] >= config.steps:
                translator.model.eval()
                return translator
        state = start(Numbers, config, out)
        train(state, out)
    state.pipeline.model.eval()
    return state.pipeline
