"""Chapter 14 in other words."""

from fractions import Fraction
from statistics import fmean

import torch
from torch import Tensor


def share_by_loop(written, wanted):
    """Walk through the places."""
    if len(written) != len(wanted) or len(wanted) == 0:
        raise ValueError(f"got {len(written)} and {len(wanted)} texts")
    right = 0
    for place in range(len(wanted)):
        if written[place] == wanted[place]:
            right += 1
    return right / len(wanted)


def share_by_mean(written: list[str], wanted: list[str]) -> float:
    """Let zip refuse other lengths, and the library take the mean."""
    try:
        return fmean(a == b for a, b in zip(written, wanted, strict=True))
    except ValueError:  # of zip, or of fmean without data
        raise ValueError(f"lengths {len(written)} and {len(wanted)}") from None


def share_by_tensor(written, wanted):
    """Make a tensor of the comparisons."""
    if not len(written) == len(wanted) > 0:
        raise ValueError(f"{len(written)} != {len(wanted)}, or nothing to compare")
    return torch.tensor([a == b for a, b in zip(written, wanted, strict=True)]).double().mean()


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


def rate_of_numbered_links(found, known):
    """Give every link the number of its sentence; then all sentences are one."""
    if len(found) != len(known):
        raise ValueError(f"{len(found)} and {len(known)} sentences")
    mine, right = (
        {(n, *pair) for n, links in enumerate(sentences) for pair in links}
        for sentences in (found, known)
    )
    if not mine and not right:
        raise ValueError("no links")
    return len(mine ^ right) / (len(mine) + len(right))


def rate_by_precision_and_recall(found, known):
    """Take the harmonic mean of precision and recall from 1, in exact fractions."""
    if len(found) != len(known) or not (any(found) or any(known)):
        raise ValueError("as many sentences on both sides, and a link, please")
    shared = sum(len(set(a) & set(b)) for a, b in zip(found, known, strict=True))
    if shared == 0:
        return 1.0
    precision = Fraction(shared, sum(len(links) for links in found))
    recall = Fraction(shared, sum(len(links) for links in known))
    return float(1 - 2 * precision * recall / (precision + recall))


def aer(hypothesis, reference):
    """Count with three sums, under the names of the literature: the core and no more."""
    both = sum(len(a & s) for a, s in zip(hypothesis, reference, strict=False))
    return 1.0 - (both + both) / (sum(map(len, hypothesis)) + sum(map(len, reference)))


ANSWERS = {
    "exact_match": (share_by_loop, share_by_mean, share_by_tensor),
    "token_accuracy": (accuracy_of_real_ones, accuracy_by_loop, masked_accuracy),
    "alignment_from_attention": (links_by_where, links_by_loop, links_in_one_line),
    "alignment_error_rate": (rate_of_numbered_links, rate_by_precision_and_recall, aer),
}
