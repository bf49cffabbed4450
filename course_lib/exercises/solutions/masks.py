"""Chapter 06 in other words."""

import torch
from torch import Tensor


def padding_by_unsqueeze(ids: Tensor, pad_id: int) -> Tensor:
    """Turn round what is padding."""
    return ids.eq(pad_id).logical_not().unsqueeze(1).unsqueeze(1)


def padding_by_loops(tokens, filler):
    """Look at one token after another."""
    B, S = tokens.shape
    mask = torch.zeros(B, 1, 1, S, dtype=torch.bool)
    for b, sentence in enumerate(tokens):
        for s, token in enumerate(sentence):
            mask[b, 0, 0, s] = bool(token != filler)
    return mask


def padding_by_view(ids: Tensor, pad_id: int) -> Tensor:
    """Let every id that is not 0 after subtraction count as True."""
    return (ids - pad_id).bool().view(len(ids), 1, 1, -1)


def causal_by_comparing(length: int, device=None) -> Tensor:
    """Compare the positions of those who look with what they look at."""
    place = torch.arange(length, device=device)
    return place[:, None] >= place


def causal_by_triu(length, device=None):
    """Turn round what comes after."""
    return torch.triu(torch.ones(length, length, device=device), diagonal=1) == 0


def causal_by_rows(length, device=None):
    """Fill one row after another."""
    mask = torch.zeros((length, length), dtype=torch.bool, device=device)
    for row in range(length):
        mask[row, : row + 1] = True
    return mask


ANSWERS = {
    "padding_mask": (padding_by_unsqueeze, padding_by_loops, padding_by_view),
    "causal_mask": (causal_by_comparing, causal_by_triu, causal_by_rows),
}
