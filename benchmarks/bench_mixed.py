"""Measure real tokens in a second, in training on sentences of mixed length."""

import math
import random
from collections.abc import Iterator
from functools import partial
from itertools import count, cycle

from bench_training import PAD, VOCAB, TorchModel, our_model, stepper
from timing import Row, in_turns, median_and_range
from torch import Tensor

from course_lib.batching import TokenBatches
from course_lib.data import pad_rows
from course_lib.trainer.hardware import bfloat16_pays, one_thread

Pair = tuple[list[int], list[int]]  # source and target ids
GOAL = 3.0
ROUNDS = 7
PAIRS = 4_000
USUAL_BATCH = 64
TOKENS = 4_096
BATCHES = 4
MEDIAN = 12
SPREAD = 0.45
SHORTEST = 3
LONGEST = 60  # about those of captions: log-normal


def mixed_pairs() -> list[Pair]:
    """Draw pairs of sentences of mixed length; long ones have long translations."""
    draw = random.Random(0)
    rows = []
    for _ in range(PAIRS):
        shared = draw.gauss(0, 1)
        pair = []
        for _ in range(2):
            length = round(MEDIAN * math.exp(SPREAD * (0.9 * shared + 0.44 * draw.gauss(0, 1))))
            pair.append(draw.choices(range(4, VOCAB), k=min(LONGEST, max(SHORTEST, length))))
        rows.append((pair[0], [1, *pair[1], 2]))
    return rows


def usual_batches(rows: list[Pair]) -> Iterator[tuple[Tensor, Tensor]]:
    """Take pairs as they come, and fill them up to the longest."""
    for start in count(0, USUAL_BATCH):
        chosen = [rows[place % len(rows)] for place in range(start, start + USUAL_BATCH)]
        yield tuple(pad_rows(side, PAD) for side in zip(*chosen, strict=True))


def our_batches(rows: list[Pair]) -> Iterator[tuple[Tensor, Tensor]]:
    """Take pairs of about the same length together, as many as fit."""
    batches = TokenBatches(rows, TOKENS, pad_id=PAD)
    return map(batches, cycle(range(1, batches.ends[-1] + 1)))


def real_tokens(src: Tensor, tgt: Tensor) -> int:
    """Count what is no padding, of source and of what is predicted."""
    return int((src != PAD).sum() + (tgt[:, 1:] != PAD).sum())


def bench_mixed(size: str = "small") -> list[Row]:
    """Print real tokens in a second, on sentences of mixed length; return the row."""
    pairs = mixed_pairs()
    fast = dict(fused=True, chunks=True, bfloat16=bfloat16_pays())
    sides = {
        "torch": (usual_batches(pairs), stepper(TorchModel(our_model(size)))),
        "ours": (our_batches(pairs), stepper(our_model(size), **fast)),
    }
    seen = {name: [] for name in sides}

    def turn(name: str) -> None:
        """Train on a few batches."""
        batches, step = sides[name]
        chosen = [next(batches) for _ in range(BATCHES)]
        seen[name].append(sum(real_tokens(*batch) for batch in chosen))
        for batch in chosen:
            step(*batch)

    acts = [partial(turn, name) for name in sides]
    with one_thread():
        in_turns(acts, 1)  # warm up
        found = zip(*in_turns(acts, ROUNDS), strict=True)
    speeds = [
        [tokens / seconds for tokens, seconds in zip(seen[name][1:], spent, strict=True)]
        for name, spent in zip(sides, found, strict=True)
    ]
    return [said(size, dict(zip(sides, speeds, strict=True)))]


def said(size: str, speeds: dict[str, list[float]]) -> Row:
    """Print the real tokens in a second of both, and their ratio; make a row of them."""
    ratio = median_and_range([a / b for b, a in zip(speeds["torch"], speeds["ours"], strict=True)])
    found = {name: median_and_range(speed) for name, speed in speeds.items()}
    one, other = (f"{found[name]['median']:,.0f}" for name in ("torch", "ours"))
    range_of = f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
    print(f"\nreal tokens in a second: torch {one}, ours {other}; {range_of}, goal {GOAL}")
    row = {"table": "real tokens in a second", "name": size, **found, "ratio": ratio}
    return row | {"rounds": len(speeds["ours"]), "goal": GOAL}


if __name__ == "__main__":
    bench_mixed()
