"""Chapter 06 in other words."""

import torch
from torch import Tensor


def padding_by_unsqueeze(ids: Tensor, pad_id: int) -> Tensor:
    """Invert what is padding, as d2l and many tutorials do."""
    return ids.eq(pad_id).logical_not().unsqueeze(1).unsqueeze(1)


def padding_by_view(src: Tensor, pad: int = 2) -> Tensor:
    """Shape it by view; the padding's id has a default of its own."""
    return (src - pad).bool().view(len(src), 1, 1, -1)


def causal_by_comparing(length: int, device=None) -> Tensor:
    """Compare the positions of those who look with what they look at."""
    position = torch.arange(length, device=device)
    return position[:, None] >= position


def subsequent_mask(size):
    """Take what does not come after, as the Annotated Transformer does; without a device."""
    return torch.triu(torch.ones(size, size), diagonal=1).type(torch.uint8) == 0


ANSWERS = {
    "padding_mask": (padding_by_unsqueeze, padding_by_view),
    "causal_mask": (causal_by_comparing, subsequent_mask),
}
