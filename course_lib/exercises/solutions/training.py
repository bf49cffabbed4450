"""Chapter 11 in other words."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.training import label_smoothed_cross_entropy


def loss_by_torch(
    scores: Tensor, right: Tensor, *, pad_id: int | None = None, smoothing: float = 0.1
) -> Tensor:
    """Let torch do what it does right: without padding all of it, with padding the first term."""
    scores, right = scores.reshape(-1, scores.size(-1)), right.reshape(-1)
    if pad_id is None:
        return F.cross_entropy(scores, right, label_smoothing=smoothing)
    sure = F.cross_entropy(scores, right, ignore_index=pad_id)
    log_probs = F.log_softmax(scores[right != pad_id], dim=1)
    allowed = torch.arange(scores.size(-1)) != pad_id
    return (1 - smoothing) * sure - smoothing * log_probs[:, allowed].mean()


def loss_of_a_short_signature(logits, target, pad_id=None):
    """Fix the smoothing at 0.1, and pick the real tokens first: the core and no more."""
    logits, target = logits.reshape(-1, logits.size(-1)), target.reshape(-1)
    if pad_id is not None:
        logits, target = logits[target != pad_id], target[target != pad_id]
    log_probs = F.log_softmax(logits, dim=-1)
    q = torch.full_like(log_probs, 0.1 / (logits.size(-1) - (pad_id is not None)))
    if pad_id is not None:
        q[:, pad_id] = 0
    q[torch.arange(len(target)), target] += 0.9
    return -(q * log_probs).sum(dim=-1).mean()


def rate_by_cases(step, d_model, warmup_steps):
    """Climb before the peak, fall behind it."""
    peak = 1 / math.sqrt(d_model * warmup_steps)
    if step <= warmup_steps:
        return peak * step / warmup_steps
    return peak * math.sqrt(warmup_steps / step)


def noam_rate(step, model_size, warmup, factor=1.0):
    """Write it as The Annotated Transformer does, under its names."""
    step = max(step, 1)
    return factor * (model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5)))


def loss_by_encode_and_decode(model, src, tgt, *, pad_id, smoothing=0.1):
    """Call both halves of the model, and cut with narrow."""
    logits = model.decode(tgt.narrow(1, 0, tgt.size(1) - 1), model.encode(src), src)
    return loss_by_torch(
        logits, tgt.narrow(1, 1, tgt.size(1) - 1), pad_id=pad_id, smoothing=smoothing
    )


def loss_by_the_book(net, src, tgt, pad_id):
    """Write it under short names, with the smoothing of the paper: the core and no more."""
    x, y = tgt[:, :-1], tgt[:, 1:]
    return label_smoothed_cross_entropy(net(src, x), y, pad_id=pad_id)


def step_that_clears_behind_itself(model, optimizer, losses, rate, *, clip_norm=math.inf):
    """Clear the gradients after the step, in time for the next one; add up numbers at the end."""
    parts = []
    for loss in losses:
        loss.backward()
        parts.append(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    for group in optimizer.param_groups:
        group.update(lr=rate)
    optimizer.step()
    optimizer.zero_grad()
    return torch.stack(parts).sum()


def step_by_the_book(net, opt, losses, lr):
    """Write the lines of every tutorial, under their short names, for a single group."""
    opt.param_groups[0]["lr"] = lr
    opt.zero_grad(set_to_none=True)
    total = sum(losses)
    total.backward()
    opt.step()
    return total.data


ANSWERS = {
    "label_smoothed_cross_entropy": (loss_by_torch, loss_of_a_short_signature),
    "warmup_inverse_sqrt": (rate_by_cases, noam_rate),
    "translation_loss": (loss_by_encode_and_decode, loss_by_the_book),
    "training_step": (step_that_clears_behind_itself, step_by_the_book),
}
