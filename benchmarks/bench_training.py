"""Compare a training step to ``torch.nn.Transformer``: its time and its saved activations."""

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
from timing import Row, can_compile, compared, in_turns, require_close_losses, saved_mib
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.feed_forward import FeedForward
from course_lib.interop import copy_to_torch
from course_lib.multi_head import MultiHeadAttention
from course_lib.trainer.chunked_loss import ChunkedLoss
from course_lib.trainer.hardware import bfloat16_pays, mixed_precision
from course_lib.training import ADAM
from course_lib.transformer import Transformer, TransformerConfig

VOCAB = 8_000
DROPOUT = 0.1
SMOOTHING = 0.1
LEARNING_RATE = 1e-4
PAD, BOS, EOS = 0, 1, 2
LENGTH = 64
ROUNDS = 7
SIZES = {  # d_model, heads, d_ff, layers on each side, sentences per batch
    "small": (256, 4, 1024, 3, 32),
    "base": (512, 8, 2048, 6, 8),  # the paper's
}
BACKEND = "inductor"  # of torch.compile
NOT_COMPILED = ("base",)  # compiling takes a minute, and does not save anything else
TORCH = "torch.nn.Transformer"
LIKE_FOR_LIKE = "like for like"
PAPERS_DROPOUT = "dropout as the paper"
Step = Callable[[Tensor, Tensor], object]


class TorchModel(nn.Module):
    """The usual wrapper of ``torch.nn.Transformer``, with embeddings and an output layer.

    Args:
        ours: The model whose sizes and weights are copied (not shared).
    """

    encoding: Tensor

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        c = ours.config
        sizes = (c.d_model, c.num_heads, c.num_encoder_layers, c.num_decoder_layers, c.d_ff)
        self.transformer = nn.Transformer(*sizes, dropout=c.dropout, batch_first=True)
        self.transformer.encoder.norm = self.transformer.decoder.norm = None  # as in the paper
        copy_to_torch(ours, self.transformer)
        self.embedding = nn.Embedding(c.tgt_vocab_size, c.d_model)
        self.embedding.load_state_dict(ours.tgt_embedding.state_dict())
        self.register_buffer("encoding", ours.positions.encoding.clone())
        self.dropout = nn.Dropout(c.dropout)
        self.scale = math.sqrt(c.d_model)

    def embed(self, ids: Tensor) -> Tensor:
        """Look up the embeddings, and add the positional encoding."""
        return self.dropout(self.embedding(ids) * self.scale + self.encoding[: ids.size(1)])

    def output(self, vectors: Tensor) -> Tensor:
        """Compute the logits with the embedding matrix."""
        return F.linear(vectors, self.embedding.weight)  # (B, T, V)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Compute the logits of every next token, with the masks that torch's users pass."""
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        src_padding, tgt_padding = (
            torch.zeros(ids.shape).masked_fill(ids == PAD, -math.inf) for ids in (src, tgt)
        )
        vectors = self.transformer(
            self.embed(src), self.embed(tgt), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=src_padding, memory_key_padding_mask=src_padding,
            tgt_key_padding_mask=tgt_padding,
        )  # fmt: skip
        return self.output(vectors)


def our_model(size: str, *, as_torch: bool = False, dropout: float = DROPOUT) -> Transformer:
    """Build our model, with dropout in the same places as the paper or (``as_torch``) as torch."""
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
    """Compute torch's label-smoothed loss of every next token."""
    logits = model(src, tgt[:, :-1]).flatten(0, 1)  # (B · T, V)
    targets = tgt[:, 1:].flatten()
    return F.cross_entropy(logits, targets, ignore_index=PAD, label_smoothing=SMOOTHING)


def training_step(
    model: nn.Module, *, fused: bool = False, chunks: bool = False, bfloat16: bool = False
) -> Step:
    """Return a function that runs a whole training step and returns its loss.

    Args:
        model: Ours or torch's.
        fused: Whether Adam updates all weights in one kernel.
        chunks: Whether the loss computes the logits of a few rows at a time.
        bfloat16: Whether matrix multiplications use bfloat16; requires ``chunks``.
    """
    optimizer = torch.optim.Adam(model.parameters(), fused=fused, **ADAM | {"lr": LEARNING_RATE})
    chunked = ChunkedLoss(model, SMOOTHING, bfloat16=bfloat16)

    def step(src: Tensor, tgt: Tensor) -> float:
        """Compute the loss and the gradients, and update the weights."""
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


def steps_by_name(size: str) -> dict[str, Step]:
    """Return every kind of training step: torch's, then ours with one change after another."""
    like_for_like = our_model(size, as_torch=True)
    steps = {
        TORCH: training_step(TorchModel(like_for_like)),
        LIKE_FOR_LIKE: training_step(like_for_like),
        PAPERS_DROPOUT: training_step(our_model(size), fused=True),
        "loss in chunks": training_step(our_model(size), fused=True, chunks=True),
    }
    if bfloat16_pays():
        steps["bfloat16"] = training_step(our_model(size), fused=True, chunks=True, bfloat16=True)
    if size not in NOT_COMPILED and can_compile():
        compiled = torch.compile(our_model(size), backend=BACKEND)
        steps[f"{PAPERS_DROPOUT}, compiled"] = training_step(compiled, fused=True)
    return steps


def full_batch(size: str) -> tuple[Tensor, Tensor]:
    """Draw sources and targets that all have the same length, without padding."""
    draw = torch.Generator().manual_seed(0)
    shapes = ((SIZES[size][-1], length) for length in (LENGTH, LENGTH + 1))
    src, tgt = (torch.randint(4, VOCAB, shape, generator=draw) for shape in shapes)
    return src, tgt


def saved_activations(size: str, src: Tensor, tgt: Tensor) -> dict[str, float]:
    """Measure the MiB that torch's model and two of our models save for the backward pass."""
    models = {
        TORCH: TorchModel(our_model(size)),
        LIKE_FOR_LIKE: our_model(size, as_torch=True),
        PAPERS_DROPOUT: our_model(size),
    }
    return {
        name: saved_mib(model, partial(loss_of, model, src, tgt)) for name, model in models.items()
    }


def bench_training() -> Iterator[Row]:
    """Measure the time and saved activations of a training step for every size, without padding."""
    for size in SIZES:
        src, tgt = full_batch(size)
        ours = our_model(size, dropout=0.0)
        losses = [loss_of(model, src, tgt).item() for model in (ours, TorchModel(ours))]
        require_close_losses(*losses)
        saved = saved_activations(size, src, tgt)
        steps = steps_by_name(size)
        seconds = in_turns([partial(step, src, tgt) for step in steps.values()], ROUNDS)
        for name, measured in zip(steps, seconds, strict=True):
            row = compared(f"training step, {size}", name, measured, seconds[0])
            yield row | {"kept_mib": saved[name]} if name in saved else row
