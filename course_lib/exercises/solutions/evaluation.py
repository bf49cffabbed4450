"""Chapter 14 in other words."""

import torch
from torch import Tensor


def accuracy_of_real_ones(logits: Tensor, targets: Tensor, pad_id: int) -> float:
    """Pick the real places first; the mean of what is left is the share."""
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"{tuple(targets.shape)} are no targets for {tuple(logits.shape)}")
    keep = targets.ne(pad_id)
    if keep.sum() == 0:
        raise ValueError("nothing but padding")
    return logits[keep].argmax(-1).eq(targets[keep]).double().mean().item()


def accuracy_by_loop(logits, targets, pad_id):
    """Count token by token."""
    if list(logits.shape[:-1]) != list(targets.shape):
        raise ValueError("shapes")
    right = total = 0
    for scores, token in zip(logits.flatten(0, -2), targets.flatten().tolist(), strict=True):
        if token != pad_id:
            total += 1
            right += int(scores.max(dim=0).indices == token)
    if not total:
        raise ValueError("no real target")
    return right / total


def masked_accuracy(logits, targets, pad_id):
    """Multiply by a mask, as textbooks do, and refuse nothing: the core and no more."""
    mask = (targets != pad_id).float()
    return float(((logits.argmax(dim=-1) == targets).float() * mask).sum() / mask.sum())


def links_by_where(weights: Tensor, threshold: float) -> set[tuple[int, int]]:
    """Let torch list rows and columns apart, and put them together."""
    if weights.ndim != 2 or threshold <= 0 or threshold > 1:
        raise ValueError(f"{tuple(weights.shape)}, {threshold}")
    rows, columns = torch.where(weights >= threshold)
    return set(zip(rows.tolist(), columns.tolist(), strict=True))


def links_by_loop(weights, threshold):
    """Look at one weight after another."""
    if not 0 < threshold <= 1 or len(weights.shape) != 2:
        raise ValueError(f"no table and threshold in (0, 1]: {weights.shape}, {threshold}")
    links = set()
    for t in range(weights.size(0)):
        for s in range(weights.size(1)):
            if not weights[t, s] < threshold:
                links.add((t, s))
    return links


def links_in_one_line(attn, threshold):
    """Write one comprehension, and refuse nothing: the core and no more."""
    return {(i, j) for i, row in enumerate(attn) for j, w in enumerate(row) if w >= threshold}


ANSWERS = {
    "token_accuracy": (accuracy_of_real_ones, accuracy_by_loop, masked_accuracy),
    "alignment_from_attention": (links_by_where, links_by_loop, links_in_one_line),
}
