"""Chapter 14 in other words."""

import torch
from torch import Tensor


def accuracy_of_real_ones(logits: Tensor, targets: Tensor, pad_id: int) -> float:
    """Pick the real places first; the mean of what is left is the share."""
    keep = targets.ne(pad_id)
    return logits[keep].argmax(-1).eq(targets[keep]).double().mean().item()


def masked_accuracy(logits, targets, pad_id):
    """Multiply by a mask, as textbooks do."""
    mask = (targets != pad_id).float()
    return float(((logits.argmax(dim=-1) == targets).float() * mask).sum() / mask.sum())


def links_by_where(weights: Tensor, threshold: float) -> set[tuple[int, int]]:
    """Let torch list rows and columns apart, and put them together."""
    rows, columns = torch.where(weights >= threshold)
    return set(zip(rows.tolist(), columns.tolist(), strict=True))


def links_in_one_line(attn, threshold):
    """Write one comprehension."""
    return {(i, j) for i, row in enumerate(attn) for j, w in enumerate(row) if w >= threshold}


ANSWERS = {
    "token_accuracy": (accuracy_of_real_ones, masked_accuracy),
    "alignment_from_attention": (links_by_where, links_in_one_line),
}
