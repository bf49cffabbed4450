"""Measure a training step against ``torch.nn.Transformer``: time, memory, and real tokens."""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import count
from statistics import median

import torch
from gauge import in_turns, kept_bytes, ratio_cells
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.data import pad_rows
from course_lib.feed_forward import FeedForward
from course_lib.interop import copy_to_torch
from course_lib.multi_head import MultiHeadAttention
from course_lib.real.batches import Row, TokenBatches
from course_lib.real.loss import backward_in_chunks
from course_lib.running.precision import bfloat16_pays, mixed_precision
from course_lib.training import ADAM
from course_lib.transformer import Transformer, TransformerConfig

VOCAB, DROPOUT, SMOOTHING, PAD = 8_000, 0.1, 0.1, 0
LENGTH, ROUNDS = 64, 7
SIZES = {  # d_model, heads, d_ff, layers on each side, sentences in a batch
    "small": (256, 4, 1024, 3, 32),
    "base": (512, 8, 2048, 6, 8),  # the paper's
}
GOALS = {"like for like": 1.0, "dropout as the paper": 1.15, "bfloat16": 1.65}
MIXED_GOAL, MEMORY_GOAL = 3.0, 0.92
PAIRS, USUAL_BATCH, TOKENS, BATCHES = 4_000, 64, 4_096, 4  # of sentences of mixed length
MEDIAN, SPREAD, SHORTEST, LONGEST = 12, 0.45, 3, 60  # about those of captions: log-normal
Step = Callable[[Tensor, Tensor], object]


class TorchModel(nn.Module):
    """Put ``torch.nn.Transformer`` between embeddings and an output, as its users do.

    Args:
        ours: Whose sizes and weights it takes; nothing is shared.
    """

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        c = ours.config
        sizes = (c.d_model, c.num_heads, c.num_encoder_layers, c.num_decoder_layers, c.d_ff)
        self.transformer = nn.Transformer(*sizes, dropout=c.dropout, batch_first=True)
        self.transformer.encoder.norm = self.transformer.decoder.norm = None  # as the paper
        copy_to_torch(ours, self.transformer)
        self.embedding = nn.Embedding(c.tgt_vocab_size, c.d_model)
        self.embedding.load_state_dict(ours.tgt_embedding.state_dict())
        self.register_buffer("encoding", ours.positions.encoding.clone())
        self.dropout, self.scale = nn.Dropout(c.dropout), math.sqrt(c.d_model)

    def embed(self, ids: Tensor) -> Tensor:
        """Look vectors up, and add their positions."""
        return self.dropout(self.embedding(ids) * self.scale + self.encoding[: ids.size(1)])

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Score every next token, with the masks that torch's users pass."""
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        hidden, later = (
            torch.zeros(ids.shape).masked_fill(ids == PAD, -math.inf) for ids in (src, tgt)
        )
        masks = dict(src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
        masks |= dict(tgt_key_padding_mask=later, tgt_mask=causal, tgt_is_causal=True)
        vectors = self.transformer(self.embed(src), self.embed(tgt), **masks)
        return F.linear(vectors, self.embedding.weight)  # (B, T, V)


def our_model(size: str, *, as_torch: bool = False, dropout: float = DROPOUT) -> Transformer:
    """Build ours, with dropout in the paper's places, or in all of torch's."""
    d_model, num_heads, d_ff, layers, _ = SIZES[size]
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            src_vocab_size=VOCAB, tgt_vocab_size=VOCAB, d_model=d_model, num_heads=num_heads,
            d_ff=d_ff, num_encoder_layers=layers, num_decoder_layers=layers, dropout=dropout,
        )
    )  # fmt: skip
    for module in model.modules() if as_torch else ():
        if isinstance(module, MultiHeadAttention):
            module.dropout = dropout
        elif isinstance(module, FeedForward):
            module.dropout.p = dropout
    return model


def loss_of(model: nn.Module, src: Tensor, tgt: Tensor) -> Tensor:
    """Return torch's own smoothed loss of every next token."""
    logits = model(src, tgt[:, :-1]).flatten(0, 1)  # (B · T, V)
    right = tgt[:, 1:].flatten()
    return F.cross_entropy(logits, right, ignore_index=PAD, label_smoothing=SMOOTHING)


def stepper(
    model: nn.Module, *, fused: bool = False, chunks: bool = False, bfloat16: bool = False
) -> Step:
    """Make what takes a whole training step and returns its loss.

    Args:
        model: Ours or torch's.
        fused: Whether Adam updates all weights in one kernel.
        chunks: Whether logits are made a few rows at a time, and dropout draws bytes.
        bfloat16: Whether matrix products are computed in it; needs ``chunks``.
    """
    optimizer = torch.optim.Adam(model.parameters(), fused=fused, **ADAM | {"lr": 1e-4})

    def step(src: Tensor, tgt: Tensor) -> float:
        """Go forward, back and down."""
        optimizer.zero_grad()
        with mixed_precision(bfloat16) if chunks else nullcontext():
            if chunks:
                loss = backward_in_chunks(model, src, tgt, smoothing=SMOOTHING)
            else:
                loss = loss_of(model, src, tgt)
                loss.backward()
        optimizer.step()
        return loss.item()

    return step


def ways(size: str) -> dict[str, Step]:
    """Name every way to take a step: torch's first, then ours, one change after another."""
    alike = our_model(size, as_torch=True)
    found = {
        "torch.nn.Transformer": stepper(TorchModel(alike)),
        "like for like": stepper(alike),
        "dropout as the paper": stepper(our_model(size), fused=True),
        "loss in chunks": stepper(our_model(size), fused=True, chunks=True),
    }
    if bfloat16_pays():
        found["bfloat16"] = stepper(our_model(size), fused=True, chunks=True, bfloat16=True)
    return found


def full_batch(size: str) -> tuple[Tensor, Tensor]:
    """Draw sentences that are all of one length: source, and target from bos to eos."""
    draw = torch.Generator().manual_seed(0)
    return tuple(
        torch.randint(4, VOCAB, (SIZES[size][-1], length), generator=draw)
        for length in (LENGTH, LENGTH + 1)
    )


def mixed_pairs() -> list[Row]:
    """Draw pairs of sentences of mixed length; long ones have long translations."""
    draw, rows = random.Random(0), []
    for _ in range(PAIRS):
        shared, pair = draw.gauss(0, 1), []
        for _ in range(2):
            length = round(MEDIAN * math.exp(SPREAD * (0.9 * shared + 0.44 * draw.gauss(0, 1))))
            pair.append(draw.choices(range(4, VOCAB), k=min(LONGEST, max(SHORTEST, length))))
        rows.append((pair[0], [1, *pair[1], 2]))
    return rows


def usual_batches(rows: list[Row]) -> Iterator[tuple[Tensor, Tensor]]:
    """Take pairs as they come, and fill them up to the longest."""
    for start in count(0, USUAL_BATCH):
        chosen = [rows[place % len(rows)] for place in range(start, start + USUAL_BATCH)]
        yield tuple(pad_rows(side, PAD) for side in zip(*chosen, strict=True))


def our_batches(rows: list[Row]) -> Iterator[tuple[Tensor, Tensor]]:
    """Take pairs of about the same length together, as many as fit."""
    batches = TokenBatches(rows, TOKENS, pad_id=PAD)
    return (batches(step) for step in count(1))


def real_tokens(src: Tensor, tgt: Tensor) -> int:
    """Count what is no padding, of source and of what is predicted."""
    return int((src != PAD).sum() + (tgt[:, 1:] != PAD).sum())


def bench_steps() -> None:
    """Print memory and time of a step on full sentences, by size."""
    head = f"{'seconds':>9} {'ratio':>6} {'min':>6} {'max':>6} {'goal':>6} {'rounds':>7}"
    for size in SIZES:
        src, tgt = full_batch(size)
        still = our_model(size, dropout=0.0)
        losses = [loss_of(model, src, tgt).item() for model in (still, TorchModel(still))]
        if abs(losses[0] - losses[1]) > 1e-3:
            raise RuntimeError(f"losses {losses}: not the same model")
        print(f"\n{'training step, ' + size:24} {head}")
        steps = ways(size)
        acts = [partial(step, src, tgt) for step in steps.values()]
        in_turns(acts, 1)  # warm up
        found = list(zip(*in_turns(acts, ROUNDS), strict=True))
        for name, spent in zip(steps, found, strict=True):
            cells = ratio_cells(spent, found[0])
            print(f"{name:24} {cells} {GOALS.get(name, ''):>6} {len(spent):7}")
        models = [our_model(size, as_torch=True), our_model(size), TorchModel(our_model(size))]
        *kept, theirs = (kept_bytes(model, partial(loss_of, model, src, tgt)) for model in models)
        alike, ours = (count_of / theirs for count_of in kept)
        print(f"kept for the way back, of torch's {theirs / 2**20:.0f} MiB: {alike:.2f} like for "
              f"like, {ours:.2f} with dropout as the paper; goal {MEMORY_GOAL}")  # fmt: skip


def bench_mixed(size: str = "small") -> None:
    """Print real tokens in a second, on sentences of mixed length."""
    rows, last = mixed_pairs(), list(ways(size).values())[-1]
    sides = {
        "torch, random batches": (usual_batches(rows), stepper(TorchModel(our_model(size)))),
        "ours, by length": (our_batches(rows), last),
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
    in_turns(acts, 1)  # warm up
    found = list(zip(*in_turns(acts, ROUNDS), strict=True))
    speeds = [
        [tokens / seconds for tokens, seconds in zip(seen[name][1:], spent, strict=True)]
        for name, spent in zip(sides, found, strict=True)
    ]
    ratios = [ours / theirs for theirs, ours in zip(*speeds, strict=True)]
    one, other = (f"{median(speed):,.0f}" for speed in speeds)
    range_of = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    print(f"\nreal tokens in a second: torch {one}, ours {other}; {range_of}, goal {MIXED_GOAL}")


def bench_training() -> None:
    """Print all of it, measured on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        bench_steps()
        bench_mixed()
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    bench_training()
