"""Number words: how the chapters' translator is trained, kept, used and measured (§5)."""

import zlib
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data import LANGUAGES, BatchMaker, Tokenizer, check_number_words, draw_pairs
from course_lib.data_parallel import split_batch, token_loss_scale
from course_lib.tasks.translator import SIZES, Translator, TranslatorConfig, translated_exactly
from course_lib.trainer.loop import start, train
from course_lib.trainer.machine import describe_machine, one_thread
from course_lib.trainer.options import whole_from_one
from course_lib.trainer.precision import mixed_precision
from course_lib.trainer.run_folder import checkpoints_beside, is_kept, read_kept
from course_lib.trainer.task import Application
from course_lib.training import ADAM, label_smoothed_cross_entropy
from course_lib.transformer import Transformer

VAL = 200  # numbers to measure the loss on


class Numbers(Application):
    """Train a translator of number words; see ``Task``.

    Args:
        config: All hyperparameters.
        data: Plays no part: the numbers are generated.
        pipeline: The translator to go on with; a new one unless given, whose tokenizer sees the
            training numbers only.
    """

    kind = Translator
    name = "numbers"
    takes = "half a minute of one CPU core"
    sizes = SIZES
    settings = {"to": dict(choices=LANGUAGES), "steps": dict(type=whole_from_one)}
    named = ("to",)
    recorded_by = ("to", "seed")
    threads = 1
    writing = {"text": dict(nargs="+", help='such as "three hundred forty-five"')}
    evaluating = {"--count": dict(type=whole_from_one, default=1000, help="of test numbers")}

    def __init__(
        self, config: TranslatorConfig, data: Any = None, pipeline: Translator | None = None
    ) -> None:
        pairs = draw_pairs("train", config.num_pairs, to=config.to, seed=config.seed)
        self.pipeline = pipeline or new_translator(config, pairs)
        tokenizer = self.pipeline.tokenizer
        self.batches = BatchMaker(pairs, tokenizer, config.batch_size, config.seed)
        self.val = BatchMaker(draw_pairs("valid", VAL, to=config.to), tokenizer, VAL)(1)
        self.steps = config.steps
        self.checksum = zlib.crc32(str(self.batches.rows).encode())

    def optimizer(self) -> torch.optim.Optimizer:
        """Make Adam, with the paper's numbers."""
        return torch.optim.Adam(self.pipeline.model.parameters(), fused=True, **ADAM)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""
        return self.pipeline.config.rate(step)

    def share(self, step: int, rank: int, size: int) -> tuple[tuple[Tensor, Tensor], float]:
        """Return source and target ids, and their weight: as they have real tokens."""
        src, tgt = self.batches(step)
        mine = split_batch(range(len(src)), rank, size)
        real = (tgt[:, 1:] != self.pipeline.tokenizer.pad_id).sum(dim=1)  # (B,)
        weight = token_loss_scale(int(real[mine].sum()), int(real.sum()), size)
        rows = mine or [0]  # who gets nothing gets a sentence of weight 0
        return (src[rows], tgt[rows]), weight

    def backward(self, engine: nn.Module, batch: tuple[Tensor, Tensor], weight: float) -> Tensor:
        """Compute the loss of chapter 10, and its gradients."""
        config = self.pipeline.config
        products = mixed_precision(True, self.pipeline.device.type)
        with products if config.bfloat16 else nullcontext():
            loss = self.loss(engine, batch, config.smoothing)
        (loss * weight).backward()
        return loss.detach()

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor], smoothing: float) -> Tensor:
        """Compute the loss of every next token of the targets ``(B, T + 1)``."""
        src, tgt = (ids.to(self.pipeline.device, non_blocking=True) for ids in batch)
        tgt_in = tgt[:, :-1]  # (B, T)
        tgt_out = tgt[:, 1:]  # (B, T)
        pad_id = self.pipeline.tokenizer.pad_id
        logits = model(src, tgt_in)  # (B, T, V)
        return label_smoothed_cross_entropy(logits, tgt_out, pad_id=pad_id, smoothing=smoothing)

    def is_measured(self, step: int) -> bool:
        """Tell whether it is one of every so many steps, or the last."""
        return step % self.pipeline.config.val_every == 0 or step == self.steps

    @torch.no_grad()
    def measure(self, pipeline: Translator, step: int) -> dict[str, float]:
        """Measure the loss on numbers of the validation split, without smoothing."""
        pipeline.model.eval()
        return {"val_loss": self.loss(pipeline.model, self.val, smoothing=0.0).item()}

    @staticmethod
    def write(pipeline: Translator, options: Namespace) -> str:
        """Translate a number, however it is typed."""
        text = " ".join(" ".join(options.text).split()).lower()
        check_number_words(text)
        return pipeline.translate([text])[0]

    @staticmethod
    def evaluate(pipeline: Translator, options: Namespace) -> dict[str, float]:
        """Count exact matches on numbers of the test split."""
        config = pipeline.config
        exact = translated_exactly(pipeline, draw_pairs("test", options.count, to=config.to))
        which = f"{config.to}, seed {config.seed}"
        print(f"{which}: exact match {exact:.3f} on {options.count} numbers of the test split")
        return {"count": options.count, "exact_match": exact}

    @staticmethod
    def entry(
        pipeline: Translator, content: dict[str, Any], found: dict[str, Any], options: Namespace
    ) -> dict[str, Any]:
        """Return what was found, and all that somebody needs to repeat it."""
        return {
            "to": pipeline.config.to,
            "seed": pipeline.config.seed,
            "steps": content["step"],
            **found,
            "parameters": sum(p.numel() for p in pipeline.model.parameters()),
            "machine": describe_machine("cpu"),
        }


def new_translator(config: TranslatorConfig, pairs: Sequence[tuple[str, str]]) -> Translator:
    """Make what a training starts from: a tokenizer that saw its texts only, and a new model."""
    texts = dict.fromkeys(text for pair in pairs for text in pair)  # each once, in order
    tokenizer = Tokenizer.learn(texts, config.vocab_size)
    torch.manual_seed(config.seed)
    return Translator(Transformer(config.of_model(len(tokenizer))), tokenizer, config)


def folder_of(config: TranslatorConfig) -> Path:
    """Say where a translator is kept: under ``checkpoints/``, or under COURSE_CHECKPOINTS."""
    return checkpoints_beside(__file__) / Numbers.folder_name(config, "course")


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
        if is_kept(out):
            translator, content = read_kept(Translator, out)
            if translator.config == config and content["step"] >= config.steps:
                translator.model.eval()
                return translator
        state = start(Numbers, config, out)
        train(state, out)
    state.pipeline.model.eval()
    return state.pipeline
