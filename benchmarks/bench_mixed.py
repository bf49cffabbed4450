"""Measure the real tokens per second in training on sentences of mixed length."""

import math
import random
from functools import partial

from bench_training import BOS, EOS, PAD, VOCAB, Step, TorchModel, our_model, training_step
from timing import Row, compared, in_turns
from torch import Tensor

from course_lib.batching import TokenBatches
from course_lib.data import pad_rows
from course_lib.trainer.hardware import bfloat16_pays

Pair = tuple[list[int], list[int]]  # source and target ids
Batch = tuple[Tensor, Tensor]
ROUNDS = 7
PAIRS = 4_000
USUAL_BATCH = 64  # sentences
TOKENS = 4_096
BATCHES = 8  # in a turn
MEDIAN = 12
SPREAD = 0.45
SHORTEST = 3
LONGEST = 60  # log-normal, similar to the lengths of captions


def mixed_pairs() -> list[Pair]:
    """Draw pairs of sentences of mixed length; long sentences have long translations."""
    draw = random.Random(0)
    pairs = []
    for _ in range(PAIRS):
        shared = draw.gauss(0, 1)
        sides = []
        for _ in range(2):
            length = round(MEDIAN * math.exp(SPREAD * (0.9 * shared + 0.44 * draw.gauss(0, 1))))
            sides.append(draw.choices(range(4, VOCAB), k=min(LONGEST, max(SHORTEST, length))))
        pairs.append((sides[0], [BOS, *sides[1], EOS]))
    return pairs


def usual_batches(pairs: list[Pair]) -> list[Batch]:
    """Batch the pairs in their given order, and pad each batch to its longest sentence."""
    batches = []
    for start in range(0, BATCHES * USUAL_BATCH, USUAL_BATCH):
        sources, targets = zip(*pairs[start : start + USUAL_BATCH], strict=True)
        batches.append((pad_rows(sources, PAD), pad_rows(targets, PAD)))
    return batches


def our_batches(pairs: list[Pair]) -> list[Batch]:
    """Fill each batch with as many pairs of similar length as fit."""
    batches = TokenBatches(pairs, TOKENS, pad_id=PAD)
    return [batches(step) for step in range(1, BATCHES + 1)]


def real_tokens(batches: list[Batch]) -> int:
    """Count the source tokens and the predicted tokens that are not padding."""
    return sum(int((src != PAD).sum() + (tgt[:, 1:] != PAD).sum()) for src, tgt in batches)


def train(step: Step, batches: list[Batch]) -> None:
    """Run a training step on each batch."""
    for batch in batches:
        step(*batch)


def bench_mixed(size: str = "small") -> list[Row]:
    """Measure the real tokens per second of our training, relative to the usual loop."""
    pairs = mixed_pairs()
    usual, ours = usual_batches(pairs), our_batches(pairs)
    fast = dict(fused=True, chunks=True, bfloat16=bfloat16_pays())
    actions = [
        partial(train, training_step(TorchModel(our_model(size))), usual),
        partial(train, training_step(our_model(size), **fast), ours),
    ]
    usual_seconds, our_seconds = in_turns(actions, ROUNDS)
    amount = real_tokens(ours) / real_tokens(usual)
    return [compared("real tokens in a second", size, our_seconds, usual_seconds, amount=amount)]
