"""A GPT that learns a text: its windows, its loss, what it writes, its record."""

import zlib
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data_parallel import split_batch
from course_lib.decoder_only import random_windows
from course_lib.gpt import param_groups
from course_lib.tasks.language_model import (
    LAST_SEED,
    PROMPTS,
    SIZES,
    TextGenerator,
    TextGeneratorConfig,
    new_generator,
    read_text,
)
from course_lib.tasks.language_model_record import entry_of
from course_lib.tasks.language_model_scores import loss_on, side_by_side
from course_lib.trainer.options import whole_from_one
from course_lib.trainer.precision import mixed_precision
from course_lib.trainer.task import Application

COLDEST = 1e-3
HOTTEST = 1e3  # beyond, logits leave what a float can hold


class LanguageModel(Application):
    """Train a GPT on the windows of a text; see ``Task``.

    Args:
        config: All its numbers.
        data: The folder of the text, if it is Shakespeare; what COURSE_DATA names unless given.
        pipeline: The writer to go on with; a new one unless given.

    Raises:
        ValueError: If the text is missing, or too short for a window.
    """

    kind = TextGenerator
    name = "gpt"
    takes = "2 minutes of one CPU core"
    sizes = SIZES
    settings = {"text": dict(choices=PROMPTS), "steps": dict(type=whole_from_one)}
    named = ("text",)
    verb = "sample"
    writing = {
        "--prompt": dict(metavar="TEXT", help="how it begins"),
        "--tokens": dict(type=whole_from_one, default=300, help="characters to write"),
        "--temperature": dict(type=float, default=0.8),
        "--top-k": dict(type=whole_from_one, metavar="K", help="the K likeliest only"),
        "--top-p": dict(type=float, metavar="P", help="the likeliest up to this probability"),
        "--draw": dict(type=int, default=0, help="another number, another text"),
    }

    def __init__(
        self,
        config: TextGeneratorConfig,
        data: Path | str | None,
        pipeline: TextGenerator | None = None,
    ) -> None:
        self.text = read_text(config.text, data)
        for ids in (self.text.train, self.text.val):
            side_by_side(ids, config.max_len)  # refuses a text that is too short
        self.pipeline = pipeline or new_generator(config, self.text.characters)
        self.windows = side_by_side(self.text.val, config.max_len)[: config.val_windows]
        self.steps = config.steps
        self.clip_norm = config.clip_norm
        self.checksum = zlib.crc32(self.text.train.numpy())  # another Python: another library

    def optimizer(self) -> torch.optim.Optimizer:
        """Make AdamW, under which matrices decay."""
        config = self.pipeline.config
        groups = param_groups(self.pipeline.model, config.weight_decay)
        betas = (config.beta1, config.beta2)
        return torch.optim.AdamW(groups, lr=config.peak_rate, betas=betas, fused=True)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""
        return self.pipeline.config.rate(step)

    def share(self, step: int, rank: int, size: int) -> tuple[tuple[Tensor, Tensor], float]:
        """Draw the windows of a step; return a process's part, and its weight."""
        config = self.pipeline.config
        drawn = random_windows(self.text.train, config.batch_size, config.max_len)
        mine = split_batch(range(config.batch_size), rank, size)
        rows = list(mine) or [0]  # who gets nothing gets a window of weight 0
        return tuple(part[rows] for part in drawn), len(mine) * size / config.batch_size

    def backward(self, engine: nn.Module, batch: tuple[Tensor, Tensor], weight: float) -> Tensor:
        """Compute the mean loss of all predictions, and its gradients."""
        device = self.pipeline.device
        read, predicted = (part.to(device, non_blocking=True) for part in batch)
        products = mixed_precision(True, device.type)
        with products if self.pipeline.config.bfloat16 else nullcontext():
            loss = engine(read, predicted)[1]
        (loss * weight).backward()
        return loss.detach()

    def is_measured(self, step: int) -> bool:
        """Tell whether it is one of every so many steps, or the last."""
        return step % self.pipeline.config.val_every == 0 or step == self.steps

    def measure(self, pipeline: TextGenerator, step: int) -> dict[str, float]:
        """Measure the loss on the first windows of val."""
        return {"val_loss": loss_on(pipeline.model, self.windows)}

    @staticmethod
    def write(pipeline: TextGenerator, options: Namespace) -> str:
        """Go on with a text."""
        temperature = options.temperature
        if not COLDEST <= temperature <= HOTTEST:
            raise ValueError(f"--temperature {temperature} is not in [{COLDEST}, {HOTTEST}]")
        prompt = PROMPTS[pipeline.config.text] if options.prompt is None else options.prompt
        how = dict(temperature=temperature, top_k=options.top_k, top_p=options.top_p)
        seed = options.draw % (LAST_SEED + 1)
        return pipeline.generate(prompt, options.tokens, seed=seed, **how)[0]

    @staticmethod
    def evaluate(pipeline: TextGenerator, options: Namespace) -> dict[str, Any]:
        """Measure the loss on all of val."""
        return measured(pipeline, options.data)

    @staticmethod
    def entry(
        pipeline: TextGenerator, content: dict[str, Any], found: dict[str, Any], options: Namespace
    ) -> dict[str, Any]:
        """Return what was found, and all that somebody needs to repeat it."""
        return entry_of(pipeline, content, found)

    @classmethod
    def record_key(cls, entry: dict[str, Any]) -> list[Any]:
        """Return all settings."""
        return list(entry["settings"].values())


def measured(writer: TextGenerator, data: Path | None) -> dict[str, Any]:
    """Measure the loss on all of val, and print it.

    Raises:
        ValueError: If the text has other characters than the writer knows.
    """
    config = writer.config
    text = read_text(config.text, data)
    if text.characters.characters != writer.characters.characters:
        raise ValueError("this writer learned from another text: it has other characters")
    windows = side_by_side(text.val, config.max_len)
    loss = loss_on(writer.model, windows)
    every = f"all {len(windows):,} windows of {config.max_len}, side by side"
    print(f"val loss {loss:.4f} nats per character, on {every}")
    return {"val_loss": loss, "characters": {"train": len(text.train), "val": len(text.val)}}
