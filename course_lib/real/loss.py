"""The loss of a training step, a few rows at a time, so that no large logits exist (§5.4)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS = 256  # 256 rows of 8,000 logits are 8 MB: they stay in the processor's cache


def backward_in_chunks(
    model: nn.Module, src: Tensor, tgt: Tensor, *, smoothing: float = 0.1, rows: int = ROWS
) -> Tensor:
    """Compute the loss of every next token, and its gradients, a few rows of logits at a time.

    Paper: §5.4, label smoothing; as ``label_smoothed_cross_entropy`` with ``pad_id=None`` on the
    real tokens. Padding never reaches the output layer.

    Args:
        model: A ``Transformer``; its gradients are added to.
        src: Source ids. Shape ``(B, S)``.
        tgt: Target ids from bos to eos. Shape ``(B, T + 1)``.
        smoothing: Label smoothing, in [0, 1].
        rows: Rows of logits that exist at once, from 1.

    Returns:
        The loss in nats per real token: a scalar, detached.
    """
    vectors, right = vectors_of_real_tokens(model, src, tgt)  # (R, d_model), (R,)
    cut = vectors.detach().requires_grad_()  # the output layer's own small graph begins here
    total = torch.zeros((), device=src.device)
    for part, ids in zip(cut.split(rows), right.split(rows), strict=True):
        logits = model.output(part).float()  # (rows, V)
        loss = F.cross_entropy(logits, ids, label_smoothing=smoothing, reduction="sum")
        (loss / len(right)).backward()
        total += loss.detach()
    vectors.backward(cut.grad)
    return total / len(right)


@torch.no_grad()
def loss_in_chunks(
    model: nn.Module, src: Tensor, tgt: Tensor, *, smoothing: float = 0.0, rows: int = ROWS
) -> tuple[Tensor, int]:
    """Return the summed loss of a batch in nats, and its number of real tokens; no gradients."""
    vectors, right = vectors_of_real_tokens(model, src, tgt)
    total = torch.zeros((), device=src.device)
    for part, ids in zip(vectors.split(rows), right.split(rows), strict=True):
        logits = model.output(part).float()  # (rows, V)
        total += F.cross_entropy(logits, ids, label_smoothing=smoothing, reduction="sum")
    return total, len(right)


def vectors_of_real_tokens(model: nn.Module, src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the output layer would read, ``(R, d_model)``, and the right ids, ``(R,)``.

    R counts the targets that are no padding.
    """
    tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]  # (B, T) each, shifted by one
    with _without_output(model):
        vectors = model(src, tgt_in)  # (B, T, d_model)
    places = (tgt_out != model.config.pad_id).flatten().nonzero().squeeze(1)  # (R,)
    return vectors.flatten(0, 1)[places], tgt_out.flatten()[places]


@contextmanager
def _without_output(model: nn.Module) -> Iterator[None]:
    """Let the model end before its output layer."""
    output, model.output = model.output, nn.Identity()
    try:
        yield
    finally:
        model.output = output
