"""Measure a training step against ``torch.nn.Transformer``: its time, and the memory it keeps."""

import math
import time
from collections.abc import Callable
from functools import partial

import torch
from timing import HEAD, Row, can_compile, cells, compared, in_turns, kept_bytes
from torch import Tensor, nn
from torch._inductor.utils import fresh_cache
from torch.nn import functional as F

from course_lib.feed_forward import FeedForward
from course_lib.interop import copy_to_torch
from course_lib.multi_head import MultiHeadAttention
from course_lib.trainer.chunked_loss import ChunkedLoss
from course_lib.trainer.hardware import bfloat16_pays, mixed_precision, one_thread
from course_lib.training import ADAM
from course_lib.transformer import Transformer, TransformerConfig

VOCAB = 8_000
DROPOUT = 0.1
SMOOTHING = 0.1
PAD = 0
LENGTH = 64
ROUNDS = 7
SIZES = {  # d_model, heads, d_ff, layers on each side, sentences in a batch
    "small": (256, 4, 1024, 3, 32),
    "base": (512, 8, 2048, 6, 8),  # the paper's
}
GOALS = {"like for like": 1.0, "dropout as the paper": 1.15, "bfloat16": 1.65}
MEMORY_GOAL = 0.92
COMPILED = "dropout as the paper, compiled"  # torch.compile makes a small model slower here
BACKEND = "inductor"  # of torch.compile
NOT_COMPILED = ("base",)  # its compiler takes a minute, and finds nothing else to save
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
        self.dropout = nn.Dropout(c.dropout)
        self.scale = math.sqrt(c.d_model)

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
        chunks: Whether logits are made a few rows at a time.
        bfloat16: Whether matrix products are computed in it; needs ``chunks``.
    """
    optimizer = torch.optim.Adam(model.parameters(), fused=fused, **ADAM | {"lr": 1e-4})
    chunked = ChunkedLoss(model, SMOOTHING, bfloat16=bfloat16)

    def step(src: Tensor, tgt: Tensor) -> float:
        """Go forward, back and down."""
        optimizer.zero_grad()
        if chunks:
            with mixed_precision(bfloat16):
                loss = chunked(src, tgt)
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
    if size not in NOT_COMPILED and can_compile():
        compiled = torch.compile(our_model(size), backend=BACKEND)
        found[COMPILED] = stepper(compiled, fused=True)
    return found


def full_batch(size: str) -> tuple[Tensor, Tensor]:
    """Draw sentences that are all of one length: source, and target from bos to eos."""
    draw = torch.Generator().manual_seed(0)
    return tuple(
        torch.randint(4, VOCAB, (SIZES[size][-1], length), generator=draw)
        for length in (LENGTH, LENGTH + 1)
    )


def same_model(size: str, src: Tensor, tgt: Tensor) -> None:
    """See that ours and torch's compute the same loss.

    Raises:
        RuntimeError: If they do not.
    """
    still = our_model(size, dropout=0.0)
    losses = [loss_of(model, src, tgt).item() for model in (still, TorchModel(still))]
    if abs(losses[0] - losses[1]) > 1e-3:
        raise RuntimeError(f"losses {losses}: not the same model")


def kept_memory(size: str, src: Tensor, tgt: Tensor) -> dict[str, float]:
    """Say how many MiB three ways keep for the backward pass, and print their shares of torch's."""
    models = {
        "torch.nn.Transformer": TorchModel(our_model(size)),
        "like for like": our_model(size, as_torch=True),
        "dropout as the paper": our_model(size),
    }
    kept = {
        name: round(kept_bytes(model, partial(loss_of, model, src, tgt)) / 2**20, 2)
        for name, model in models.items()
    }
    theirs, alike, ours = kept.values()
    print(
        f"kept for the backward pass, of torch's {theirs:.0f} MiB: {alike / theirs:.2f} like for "
        f"like, {ours / theirs:.2f} with dropout as the paper; goal {MEMORY_GOAL}"
    )
    return kept


def first_seconds(acts: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return how long each takes for the first time, by the clock: other processes compile, too.

    What an earlier run has compiled is not found.
    """
    found = {}
    with fresh_cache():
        for name, act in acts.items():
            start = time.perf_counter()
            act()
            found[name] = time.perf_counter() - start
    return found


def bench_size(size: str) -> list[Row]:
    """Print time and memory of a step on full sentences, of one size; return the rows."""
    src, tgt = full_batch(size)
    same_model(size, src, tgt)
    table = f"training step, {size}"
    rows = []
    print(f"\n{table:30} {HEAD} {'goal':>6} {'rounds':>7}")
    acts = {name: partial(step, src, tgt) for name, step in ways(size).items()}
    first = first_seconds(acts)
    in_turns(list(acts.values()), 1)  # warm up
    found = list(zip(*in_turns(list(acts.values()), ROUNDS), strict=True))
    for name, spent in zip(acts, found, strict=True):
        goal = {"goal": GOALS[name]} if name in GOALS else {}
        rows.append(compared(table, name, spent, found[0], **goal))
        print(f"{name:30} {cells(rows[-1])} {goal.get('goal', ''):>6} {len(spent):7}")
    if COMPILED in first:
        rows[-1]["compile_seconds"] = round(first[COMPILED], 1)
        print(f"{COMPILED}: its first step took {first[COMPILED]:.0f} seconds")
    kept = kept_memory(size, src, tgt)
    return [row | ({"kept_mib": kept[row["name"]]} if row["name"] in kept else {}) for row in rows]


def bench_training() -> list[Row]:
    """Print all sizes, measured on one thread; return the rows."""
    with one_thread():
        return [row for size in SIZES for row in bench_size(size)]


if __name__ == "__main__":
    bench_training()
