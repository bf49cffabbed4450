"""Training a GPT on a text: its windows, its loss."""

import zlib
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from course_lib.data_parallel import split_batch
from course_lib.decoder_only import random_windows
from course_lib.gpt import param_groups
from course_lib.tasks.language_model import (
    TextGenerator,
    TextGeneratorConfig,
    new_generator,
    read_text,
)
from course_lib.tasks.language_model_scores import loss_on, side_by_side
from course_lib.trainer.precision import mixed_precision
from course_lib.trainer.task import Task


class LanguageModel(Task):
    """Train a GPT on the windows of a text; see ``Task``.

    Args:
        config: All its numbers.
        data: The folder of the text, if it is Shakespeare; what COURSE_DATA names unless given.
        pipeline: The writer to go on with; a new one unless given.

    Raises:
        ValueError: If the text is missing, or too short for a window.
    """

    kind = TextGenerator

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
        read, predicted = (part.to(device) for part in batch)
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
