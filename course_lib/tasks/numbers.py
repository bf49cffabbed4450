"""Number words: how the chapters' translator is configured, trained, saved and used (§5)."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from course_lib.batching import batch_by_tokens
from course_lib.data import BatchMaker, Tokenizer, draw_pairs, pad_rows
from course_lib.decoding import greedy_decode
from course_lib.support.corpora import LANGUAGES
from course_lib.support.quoted_text import QUOTED
from course_lib.tasks.task_sizes import NUMBERS_SIZES
from course_lib.trainer import run_folder
from course_lib.trainer.hardware import one_thread
from course_lib.trainer.loop import start, train
from course_lib.trainer.options import TrainingConfig, shared_fields
from course_lib.trainer.task import Pipeline, Task
from course_lib.training import translation_loss, warmup_inverse_sqrt
from course_lib.transformer import Transformer, TransformerConfig

VAL = 200  # numbers to measure the loss on


def warmup_cooldown(
    step: int, d_model: int, warmup_steps: int, *, steps: int, scale: float, cooldown_steps: int
) -> float:
    """Adapt the paper's schedule to a short training run of a small model.

    Paper: §5.3, equation (3).
    Returns scale times the paper's rate. Over the last cooldown_steps steps, it is multiplied by a
    linearly decreasing factor, which would reach zero one step after the last.
    Raises ValueError if a count is below 1, or the step is beyond the last one.
    Differs: the rate is scaled, and lowered toward zero at the end so that the weights settle.
    """
    if not 1 <= step <= steps or cooldown_steps < 1:
        raise ValueError(
            f"{step=} must be between 1 and {steps=}, and {cooldown_steps=} must be positive"
        )
    cooling = min(1.0, (steps + 1 - step) / cooldown_steps)
    return scale * cooling * warmup_inverse_sqrt(step, d_model, warmup_steps)


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(TrainingConfig):
    """Hyperparameters of all translators; the encoder and the decoder have the same depth."""

    stacks = 2
    ranges = TrainingConfig.ranges | {"smoothing": (0.0, 1.0)}
    vocab_size: int = 200  #: subword tokens of the shared vocabulary
    num_heads: int = 4  #: in each attention layer
    d_ff: int = 512  #: features inside each feed-forward sub-layer
    warmup_steps: int = 50  #: the step at which the learning rate peaks
    smoothing: float = 0.1  #: label smoothing, in [0, 1]

    def of_model(self, vocab_size: int) -> TransformerConfig:
        """Return the hyperparameters of the model."""
        return TransformerConfig(
            src_vocab_size=vocab_size,
            tgt_vocab_size=vocab_size,
            num_encoder_layers=self.num_layers,
            num_decoder_layers=self.num_layers,
            pad_id=Tokenizer.pad_id,
            **shared_fields(TransformerConfig, self),
        )


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig(TranslationConfig):
    """Hyperparameters of a number-word translator."""

    choices = {"to": LANGUAGES}
    to: str = next(iter(LANGUAGES))  #: target language, one of ``data.LANGUAGES``
    num_pairs: int = 15_000  #: numbers in the training data
    batch_size: int = 64  #: sentences in a step
    steps: int = 450  #: the last step
    cooldown_steps: int = 100  #: last steps, in which the rate falls to zero; 1 for none
    rate_scale: float = 0.15  #: the paper's learning rate times this
    val_every: int = 50  #: steps between two measurements of the loss on val

    def rate(self, step: int) -> float:
        """Return the learning rate for a step; steps are counted from 1."""
        return warmup_cooldown(
            step,
            self.d_model,
            self.warmup_steps,
            steps=self.steps,
            scale=self.rate_scale,
            cooldown_steps=self.cooldown_steps,
        )


class Translator(Pipeline):
    """A ``Transformer`` and its ``Tokenizer``, which together translate text."""

    what = "a number-word translator"
    config_class: ClassVar[type[TrainingConfig]] = TranslatorConfig
    model_class = Transformer
    tokenizer_class = Tokenizer
    model: Transformer
    tokenizer: Tokenizer
    config: TranslatorConfig

    def vocabulary(self) -> str:
        """Return the tokenizer as JSON."""
        return self.tokenizer.to_json()

    def source_ids(self, texts: Sequence[str]) -> Tensor:
        """Turn texts into padded ids ``(B, S)``; no text may be empty or too long for the model."""
        rows = [self.tokenizer.encode(text) for text in texts]
        limit = self.config.max_len
        for text, row in zip(texts, rows, strict=True):
            if not text.strip() or len(row) > limit:
                raise ValueError(
                    f"the text must have at least one word and at most {limit} tokens, but it has "
                    f"{len(row)}: {text[:QUOTED]!r}"
                )
        return pad_rows(rows, self.tokenizer.pad_id).to(self.device)

    def translate(self, texts: Sequence[str], *, tokens: int = 2_048, **options: Any) -> list[str]:
        """Translate texts in batches of similar length; ``options`` are those of ``search``.

        A batch has at most ``tokens`` source positions. The order of the texts is kept.
        """
        lengths = [(len(self.tokenizer.encode(text)), 0) for text in texts]
        translations = [""] * len(texts)
        chunks = batch_by_tokens(lengths, max([(tokens, 0), *lengths])[0])
        for chunk in tqdm(chunks, unit="batch", delay=2, leave=False, disable=None):
            rows = self.search(self.source_ids([texts[place] for place in chunk]), **options)
            for place, row in zip(chunk, rows, strict=True):
                translations[place] = self.tokenizer.decode(row)
        return translations

    def search(self, src: Tensor, **options: Any) -> Tensor:
        """Call ``greedy_decode`` with ``options``, and return the ids ``(B, T)``."""
        ids = self.tokenizer
        return greedy_decode(self.model, src, bos_id=ids.bos_id, eos_id=ids.eos_id, **options)


class Numbers(Task[Translator]):
    """The task of training a number-word translator on generated data, without a data folder."""

    name = "numbers"
    sizes = {name: size.changes for name, size in NUMBERS_SIZES.items()}
    variant = "to"
    pipeline_class = Translator
    batches: BatchMaker

    def __init__(
        self, config: TranslatorConfig, data: Path | None = None, pipeline: Translator | None = None
    ) -> None:
        pairs = draw_pairs("train", config.num_pairs, to=config.to, seed=config.seed)
        if pipeline is None:
            texts = dict.fromkeys(text for pair in pairs for text in pair)  # each once, in order
            pipeline = Translator.new(config, Tokenizer.learn(texts, config.vocab_size))
        self.pipeline = pipeline
        self.batches = BatchMaker(pairs, pipeline.tokenizer, config.batch_size, config.seed)
        self.val = BatchMaker(draw_pairs("valid", VAL, to=config.to), pipeline.tokenizer, VAL)(1)
        tokens = sum(len(source) + len(target) for source, target in self.batches.rows)
        self.positions = config.batch_size * tokens / len(pairs)
        self.steps = config.steps
        self.val_every = config.val_every
        self.rate = config.rate
        self.checksum = zlib.crc32(str(self.batches.rows).encode())

    def loss(
        self, model: nn.Module, batch: tuple[Tensor, ...], smoothing: float | None = None
    ) -> Tensor:
        """Return the mean loss on source ids ``(B, S)`` and target ids ``(B, T + 1)``."""
        src, tgt = (ids.to(self.pipeline.device, non_blocking=True) for ids in batch)
        if smoothing is None:
            smoothing = self.pipeline.config.smoothing
        return translation_loss(model, src, tgt, pad_id=Tokenizer.pad_id, smoothing=smoothing)

    @torch.no_grad()
    def measure(self, pipeline: Translator, step: int) -> dict[str, float]:
        """Measure the loss on numbers from the validation split, without smoothing."""
        pipeline.model.eval()
        return {"val_loss": self.loss(pipeline.model, self.val, smoothing=0.0).item()}


def folder_of(config: TranslatorConfig) -> Path:
    """Return a translator's folder, which is in ``checkpoints/`` or in COURSE_CHECKPOINTS."""
    return run_folder.checkpoints_folder() / Numbers.folder_name(config, "course")


def load_or_train(config: TranslatorConfig | None = None) -> Translator:
    """Return a trained translator, by default English to German; train it first if necessary.

    Training takes half a minute. The random state and the number of threads stay unchanged.
    Raises ValueError if the checkpoint is damaged, or the run has different hyperparameters.
    """
    config = config or TranslatorConfig()
    out = folder_of(config)
    with torch.random.fork_rng(), one_thread():
        translator = _trained(config, out)
        if translator is None:
            with run_folder.locked(out, wait=True):  # another process may have trained it by then
                unfinished = run_folder.find_checkpoint(out)
                checkpoint = run_folder.read_checkpoint(out) if unfinished else None
                state = start(Numbers, config, checkpoint)
                train(state, out)
            translator = state.task.pipeline
    translator.model.eval()
    return translator


def _trained(config: TranslatorConfig, out: Path) -> Translator | None:
    """Return the translator in a folder, if it is fully trained with this configuration."""
    if run_folder.find_checkpoint(out) is None:
        return None
    translator, metadata = run_folder.load_pipeline(Translator, out)
    finished = metadata["step"] >= config.steps
    return translator if finished and translator.config == config else None
