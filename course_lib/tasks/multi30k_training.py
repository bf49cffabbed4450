"""A translator of real sentences: its batches, its loss, its score, its record (§5, §6)."""

import sys
import time
import zlib
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data.multi30k_files import DIRECTIONS, LINES
from course_lib.tasks.multi30k import (
    SIZES,
    Pairs,
    RealConfig,
    RealTranslator,
    new_translator,
    read_pairs,
    score,
    token_batches,
)
from course_lib.tasks.multi30k_record import RUN, entry_of
from course_lib.trainer.batch_sampler import TokenBatches
from course_lib.trainer.chunked_loss import backward_in_chunks, loss_in_chunks
from course_lib.trainer.options import check_between
from course_lib.trainer.precision import bfloat16_pays, mixed_precision
from course_lib.trainer.task import Application
from course_lib.training import ADAM

MOST_ALPHA = 10  # of the length penalty; beyond it, nothing but the length counts
SEARCH = {
    "--beam": dict(type=int, default=4, help="1 is greedy"),
    "--alpha": dict(type=float, default=0.6, help="of the length penalty"),
}


class Multi30k(Application):
    """Train a translator of sentences, measured after every epoch; see ``Task``.

    Args:
        config: All its numbers.
        data: The folder of the corpus; what COURSE_DATA names unless given.
        pipeline: The translator to go on with; a new one unless given.
    """

    kind = RealTranslator
    keep_last = 10
    name = "multi30k"
    takes = "an hour of two cores"
    sizes = SIZES
    settings = {"direction": dict(choices=DIRECTIONS)}
    named = ("direction",)
    recorded_by = RUN
    writing = {"text": dict(nargs="+", help='such as "Ein Mann fährt Fahrrad."'), **SEARCH}
    evaluating = {"--split": dict(choices=[*LINES][1:], default="val"), **SEARCH}

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
        return backward_in_chunks(
            *(self.pipeline.model, *batch),
            smoothing=config.smoothing,
            weight=weight,
            engine=engine,
            precision=partial(mixed_precision, config.bfloat16, self.pipeline.device.type),
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

    @classmethod
    def settled_here(cls, chosen: dict[str, Any], kept: Any, options: Namespace) -> dict[str, bool]:
        """Take bfloat16 as it was begun, or where it is faster: a GPU that trains today has it."""
        if "bfloat16" in chosen:
            return {}
        fast = kept.bfloat16 if kept else options.device == "cuda" or bfloat16_pays()
        return {"bfloat16": fast}

    @staticmethod
    def write(pipeline: RealTranslator, options: Namespace) -> str:
        """Translate one text."""
        text = " ".join(" ".join(options.text).split())
        return pipeline.translate([text], **_search(options))[0]

    @staticmethod
    def evaluate(pipeline: RealTranslator, options: Namespace) -> dict[str, Any]:
        """Translate a split freely, and measure BLEU and chrF."""
        return measured(pipeline, options)

    @staticmethod
    def entry(
        pipeline: RealTranslator, content: dict[str, Any], found: dict[str, Any], options: Namespace
    ) -> dict[str, Any]:
        """Return what was found, and all that somebody needs to repeat it."""
        pairs = read_pairs(pipeline.config, options.split, options.data)
        parameters = sum(p.numel() for p in pipeline.model.parameters())
        found = found | dict(loss=val_loss(pipeline, pairs), parameters=parameters)
        write = partial(pipeline.translate, **_search(options))
        return entry_of(content, found, options, write)


def _search(options: Namespace) -> dict[str, Any]:
    """Return how a translation is searched for."""
    check_between(options, 0, MOST_ALPHA, "alpha")
    return dict(beam_size=options.beam, alpha=options.alpha)


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


def measured(translator: RealTranslator, options: Namespace) -> dict[str, Any]:
    """Translate a split freely; print BLEU and chrF, and return them."""
    how = _search(options)
    if options.split != "val":
        print("the test set is for the last report: choose on --split val", file=sys.stderr)
    pairs = read_pairs(translator.config, options.split, options.data)
    sources, references = map(list, zip(*pairs, strict=True))
    begin = time.monotonic()
    written = translator.translate(sources, **how)
    seconds = time.monotonic() - begin
    found = score(written, references)
    for name in ("bleu", "bleu_lower", "chrf"):
        print(f"{name} {found[name]:.2f}  {found[f'{name}_signature']}")
    print(f"{len(written)} sentences of {options.split} in {seconds:.0f} s")
    return found
