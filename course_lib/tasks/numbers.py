"""The trained translator of chapter 10, in one place: train it, keep it, use it (§5)."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_lib.data import BatchMaker, Tokenizer, draw_pairs, pad_rows
from course_lib.decoding import greedy_decode
from course_lib.evaluation import exact_match
from course_lib.trainer.checkpoint import load_checkpoint, save_checkpoint
from course_lib.training import ADAM, train, warmup_cooldown
from course_lib.transformer import Transformer, TransformerConfig

FOLDER = Path(__file__).resolve().parents[2] / "checkpoints"


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig:
    """Hold every number that defines a translator and its training.

    Args:
        to: The language it writes, one of ``data.LANGUAGES``.
        seed: Decides the training numbers, the first weights, and the order of the batches.
        num_pairs: Numbers to learn from.
        vocab_size: Pieces of the shared vocabulary.
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
        dropout: Share dropped in the paper's places, in [0, 1].
        max_len: Longest sequence, in tokens.
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

    def of_model(self, vocab_size: int) -> TransformerConfig:
        """Return the part of the numbers that the model is built from."""
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


def model_config(numbers: Any, vocab_size: int) -> TransformerConfig:
    """Build the configuration of a model that reads and writes with one vocabulary.

    Args:
        numbers: What has ``d_model``, ``num_heads``, ``num_layers``, ``d_ff``, ``dropout`` and
            ``max_len``; encoder and decoder are equally deep.
        vocab_size: Pieces of the vocabulary.
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
    config: TranslatorConfig

    def source_ids(self, texts: Sequence[str]) -> Tensor:
        """Turn B texts into padded ids ``(B, S)``.

        Raises:
            ValueError: If there is no text, or one is empty.
        """
        for place, text in enumerate(texts, start=1):
            if not text.strip():
                raise ValueError(f"text {place} of {len(texts)} is empty: nothing to translate")
        return pad_rows([self.tokenizer.encode(text) for text in texts], self.tokenizer.pad_id)

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate every text by greedy decoding, all of them at once.

        Raises:
            ValueError: If a text is empty or longer than the model reads.
        """
        ids = greedy_decode(
            self.model,
            self.source_ids(texts),
            bos_id=self.tokenizer.bos_id,
            eos_id=self.tokenizer.eos_id,
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
        The share of right translations, in [0, 1].

    Raises:
        ValueError: If there are no pairs.
    """
    if not pairs:
        raise ValueError("there are no pairs to translate and count")
    sources, targets = zip(*pairs, strict=True)
    chunks = [translator.translate(sources[i : i + batch]) for i in range(0, len(pairs), batch)]
    return exact_match([text for chunk in chunks for text in chunk], targets)


def checkpoint_path(config: TranslatorConfig) -> Path:
    """Say where a translator is kept: under ``checkpoints/``, or under COURSE_CHECKPOINTS."""
    folder = Path(os.environ.get("COURSE_CHECKPOINTS") or FOLDER)
    return folder / f"numbers-en-{config.to}-seed{config.seed}.pt"


def prepare(config: TranslatorConfig) -> tuple[Translator, BatchMaker]:
    """Make what a training starts from: numbers, a tokenizer that saw only them, a new model."""
    pairs = draw_pairs("train", config.num_pairs, to=config.to, seed=config.seed)
    texts = dict.fromkeys(text for pair in pairs for text in pair)  # each once, in order
    tokenizer = Tokenizer.learn(texts, config.vocab_size)
    torch.manual_seed(config.seed)
    model = Transformer(config.of_model(len(tokenizer)))
    batches = BatchMaker(pairs, tokenizer, config.batch_size, config.seed)
    return Translator(model, tokenizer, config), batches


def train_translator(
    config: TranslatorConfig,
    *,
    path: Path | None = None,
    resume: bool = False,
    save_every: int = 100,
    after_save: Callable[[int], None] = lambda step: None,
    stop: Callable[[], bool] = lambda: False,
) -> Translator:
    """Train a translator, and keep it on disk as it grows.

    Args:
        config: What to train.
        path: Where to keep it; ``checkpoint_path(config)`` unless given.
        resume: Whether to go on from what is kept there, to the very same losses.
        save_every: Steps between two checkpoints, from 1; a stop loses at most so many.
        after_save: Called with the step of every checkpoint.
        stop: Asked after every step whether it is to be the last.

    Raises:
        ValueError: If what is kept there is of another configuration, or unreadable.
        KeyboardInterrupt: If ``stop`` said so; the step is kept.
    """
    path = path or checkpoint_path(config)
    with _own_randomness(), one_thread():
        translator, batches = prepare(config)
        optimizer = torch.optim.Adam(translator.model.parameters(), fused=True, **ADAM)
        done = _restore(translator, optimizer, path) if resume else 0
        train(
            translator.model,
            optimizer,
            batches,
            steps=config.steps,
            first_step=done + 1,
            rate=config.rate,
            smoothing=config.smoothing,
            after_step=_keeper(translator, optimizer, path, save_every, after_save, stop),
        )
    return translator


def load_translator(path: Path) -> tuple[Translator, int]:
    """Read a translator, and the step it was kept at.

    Raises:
        ValueError: If the file is missing, cut off, or no translator's.
    """
    return _from_content(load_checkpoint(path), path)


def _from_content(content: dict[str, Any], path: Path) -> tuple[Translator, int]:
    """Build a translator from what a checkpoint holds."""
    try:
        config = TranslatorConfig(**content["config"])
        tokenizer = Tokenizer(content["tokenizer"])
        with _own_randomness():  # a new model draws its first weights
            model = Transformer(config.of_model(len(tokenizer)))
        model.load_state_dict(content["model"])
        step = int(content["step"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{path} is no translator's checkpoint; move it away and train again "
            f"({type(error).__name__}: {reason})"
        ) from None
    return Translator(model.eval(), tokenizer, config), step


def load_or_train(config: TranslatorConfig | None = None) -> Translator:
    """Return the trained translator; train it (half a minute) only if none is kept.

    Args:
        config: Which one; the course's English–German one unless given.

    Raises:
        ValueError: If the file kept is unreadable; the message says what to do.
    """
    config = config or TranslatorConfig()
    resume = False
    if checkpoint_path(config).exists():
        translator, step = load_translator(checkpoint_path(config))
        if translator.config == config and step == config.steps:
            return translator
        resume = translator.config == config
    translator = train_translator(config, resume=resume)
    translator.model.eval()
    return translator


def snapshot(translator: Translator, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Any]:
    """Gather all that the next step depends on."""
    return {
        "model": translator.model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "config": asdict(translator.config),
        "tokenizer": translator.tokenizer.to_json(),
        "random_state": torch.get_rng_state(),
    }


def _keeper(
    translator: Translator,
    optimizer: torch.optim.Optimizer,
    path: Path,
    save_every: int,
    after_save: Callable[[int], None],
    stop: Callable[[], bool],
) -> Callable[[int, Tensor], None]:
    """Make what training calls after every step: save now and then, at a stop, and at the end."""

    def keep(step: int, loss: Tensor) -> None:
        """Save, if this is a step to save at."""
        enough = stop()
        if enough or step % save_every == 0 or step == translator.config.steps:
            save_checkpoint(path, snapshot(translator, optimizer, step))
            after_save(step)
        if enough:
            raise KeyboardInterrupt

    return keep


def _restore(translator: Translator, optimizer: torch.optim.Optimizer, path: Path) -> int:
    """Put a kept training back in place; return the last step made."""
    content = load_checkpoint(path)
    kept, step = _from_content(content, path)
    if replace(kept.config, steps=translator.config.steps) != translator.config:
        raise ValueError(
            f"{path} was trained with {kept.config}, not with {translator.config}; "
            "ask for the same, or train anew"
        )
    rates = (kept.config.rate, translator.config.rate)
    made = range(1, step + 1)
    if step > translator.config.steps or any(rates[0](n) != rates[1](n) for n in made):
        raise ValueError(
            f"{path} is at step {step} of steps={kept.config.steps}: too late for "
            f"steps={translator.config.steps}; ask for the same, or train anew"
        )
    translator.model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    torch.set_rng_state(content["random_state"])
    return step


@contextmanager
def _own_randomness() -> Iterator[None]:
    """Leave the caller's random state as it was."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: in a model this small, several only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
