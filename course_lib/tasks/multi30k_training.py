"""Training a translator of real sentences: its batches, its loss, its score (§5)."""

import zlib
from pathlib import Path

import torch
from torch import Tensor, nn

from course_lib.tasks.multi30k import (
    Pairs,
    RealConfig,
    RealTranslator,
    new_translator,
    read_pairs,
    score,
    token_batches,
)
from course_lib.trainer.batch_sampler import TokenBatches
from course_lib.trainer.chunked_loss import backward_in_chunks, loss_in_chunks
from course_lib.trainer.precision import mixed_precision
from course_lib.trainer.task import Task
from course_lib.training import ADAM


class Multi30k(Task):
    """Train a translator of sentences, measured after every epoch; see ``Task``.

    Args:
        config: All its numbers.
        data: The folder of the corpus; what COURSE_DATA names unless given.
        pipeline: The translator to go on with; a new one unless given.
    """

    kind = RealTranslator
    keep_last = 10

    def __init__(
        self, config: RealConfig, data: Path | str | None, pipeline: RealTranslator | None = None
    ) -> None:
        pairs = read_pairs(config, "train", data)
        self.pipeline = pipeline or new_translator(config, pairs)
        self.batches = token_batches(self.pipeline, pairs)
        self.val = read_pairs(config, "val", data)
        self.steps = self.batches.last_step(config.epochs)
        self.checksum = zlib.crc32(str(self.batches.rows).encode())

    def optimizer(self) -> torch.optim.Optimizer:
        """Make Adam, with the paper's numbers."""
        return torch.optim.Adam(self.pipeline.model.parameters(), fused=True, **ADAM)

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""
        return self.pipeline.config.rate(step, self.steps)

    def share(self, step: int, rank: int, size: int) -> tuple[tuple[Tensor, Tensor], float]:
        """Return source and target ids, and their weight: as they have real tokens."""
        src, tgt, weight = self.batches.share(step, rank, size)
        return (src, tgt), weight

    def backward(self, engine: nn.Module, batch: tuple[Tensor, Tensor], weight: float) -> Tensor:
        """Compute the label-smoothed loss and its gradients, a few rows of logits at a time."""
        config = self.pipeline.config
        with mixed_precision(config.bfloat16, self.pipeline.device.type):
            return backward_in_chunks(
                *(self.pipeline.model, *batch),
                smoothing=config.smoothing,
                weight=weight,
                engine=engine,
            )

    def is_measured(self, step: int) -> bool:
        """Tell whether an epoch ends with a step."""
        return step == self.batches.last_step(self.batches.find(step)[0])

    def measure(self, pipeline: RealTranslator, step: int) -> dict[str, float]:
        """Measure the loss on val, and translate it greedily."""
        sources, references = zip(*self.val, strict=True)
        found = score(pipeline.translate(sources, beam_size=1), references)
        return {
            "epoch": self.batches.find(step)[0],
            "val_loss": val_loss(pipeline, self.val),
            **{name: value for name, value in found.items() if isinstance(value, float)},
        }


def val_loss(translator: RealTranslator, pairs: Pairs) -> float:
    """Measure the loss on pairs in nats per token, without smoothing, reading right beginnings."""
    batches = TokenBatches(translator.rows(pairs), 4_096, pad_id=translator.tokenizer.pad_id)
    was_training = translator.model.training
    translator.model.eval()
    total = 0.0
    count = 0
    for places in batches.plan(1):
        loss, real = loss_in_chunks(translator.model, *batches.batch(places))
        total = total + loss.item()
        count = count + real
    translator.model.train(was_training)
    return total / count
