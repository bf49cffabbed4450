"""The loss of a training step, a few rows at a time, so that no large logits exist (§5.4)."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS = 256  # 256 rows of 8,000 logits are 8 MB: they stay in the processor's cache


class HiddenStates(nn.Module):
    """Compute what the output layer of a ``Transformer`` reads: ``(B, T, d_model)``."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Read source ``(B, S)`` and target ``(B, T)``."""
        return self.model.hidden(tgt, self.model.encode(src), src)


def backward_in_chunks(
    model: nn.Module,
    src: Tensor,
    tgt: Tensor,
    *,
    smoothing: float = 0.1,
    rows: int = ROWS,
    weight: float = 1.0,
    engine: nn.Module | None = None,
    precision: Callable[[], AbstractContextManager] = nullcontext,
) -> Tensor:
    """Compute the loss of every next token, and its gradients, a few rows of logits at a time.

    Paper: §5.4, label smoothing; as ``label_smoothed_cross_entropy`` with ``pad_id=None`` on the
    real tokens. Padding never reaches the output layer.

    Args:
        model: A ``Transformer``; its gradients are added to.
        src: Source ids, on any device. Shape ``(B, S)``.
        tgt: Target ids from bos to eos. Shape ``(B, T + 1)``.
        smoothing: Label smoothing, in [0, 1].
        rows: Rows of logits that exist at once, from 1.
        weight: What the gradients are multiplied by.
        engine: Its ``HiddenStates``, as several processes share them.
        precision: What the forward pass and the loss are computed under, such as autocast.

    Returns:
        The loss in nats per real token, not weighted: a scalar, detached.
    """
    with precision():
        vectors, right = vectors_of_real_tokens(model, src, tgt, engine)  # (R, d_model), (R,)
    matrix = model.output.weight  # (V, d_model)
    ends = [x.detach().requires_grad_() for x in (vectors, matrix)]  # of a small graph of its own
    total: Any = 0.0  # a scalar on the device from the first part on
    for part, ids in zip(ends[0].split(rows), right.split(rows), strict=True):
        with precision():
            loss = _summed_loss(F.linear(part, ends[1]), ids, smoothing)
        (loss * (weight / len(right))).backward()
        total += loss.detach()
    torch.autograd.backward([vectors, matrix], [end.grad for end in ends])  # each weight once
    return total / len(right)


def _summed_loss(logits: Tensor, right: Tensor, smoothing: float) -> Tensor:
    """Sum the losses of rows of logits ``(R, V)``, in float32 at least."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits, right, label_smoothing=smoothing, reduction="sum")


@torch.no_grad()
def loss_in_chunks(model: nn.Module, src: Tensor, tgt: Tensor) -> tuple[Tensor, int]:
    """Return the summed loss of a batch in nats, unsmoothed, and its number of real tokens."""
    vectors, right = vectors_of_real_tokens(model, src, tgt)
    total: Any = 0.0
    for part, ids in zip(vectors.split(ROWS), right.split(ROWS), strict=True):
        total += _summed_loss(model.output(part), ids, smoothing=0.0)
    return total, len(right)


def vectors_of_real_tokens(
    model: nn.Module, src: Tensor, tgt: Tensor, engine: nn.Module | None = None
) -> tuple[Tensor, Tensor]:
    """Return what the output layer reads, ``(R, d_model)``, and the right ids, ``(R,)``.

    R counts the targets that are no padding. Ids that are still on the CPU are counted there, so
    that nothing waits for a GPU to say how many they are.
    """
    device = next(model.parameters()).device
    positions = (tgt[:, 1:] != model.config.pad_id).flatten().nonzero().squeeze(1)  # (R,)
    src, tgt, positions = (ids.to(device, non_blocking=True) for ids in (src, tgt, positions))
    vectors = (engine or HiddenStates(model))(src, tgt[:, :-1])  # (B, T, d_model)
    return vectors.flatten(0, 1)[positions], tgt[:, 1:].flatten()[positions]
