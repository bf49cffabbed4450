"""Sampling in other words."""

import torch
from torch import Tensor


def sample_by_noise(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Forbid what is cut off where it stands; add Gumbel's noise and take the best."""
    V = logits.size(-1)
    scores = logits / temperature  # (B, V)
    if top_k is not None and top_k < V:
        least = scores.topk(top_k, dim=-1).values[:, -1:]  # (B, 1)
        scores = scores.masked_fill(scores < least, -torch.inf)
    if top_p is not None:
        shares = scores.softmax(dim=-1)  # (B, V)
        likelier = shares.unsqueeze(1) > shares.unsqueeze(2)  # (B, V, V): second than first
        before = (likelier * shares.unsqueeze(1)).sum(dim=-1)  # (B, V)
        scores = scores.masked_fill(before >= top_p, -torch.inf)
    uniform = torch.rand(scores.shape, generator=generator).clamp(min=1e-9)
    noise = -(-uniform.log()).log()  # (B, V)
    return (scores + noise).argmax(dim=-1)


def sample_by_sorting(logits, *, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Sort the whole vocabulary, cut, and let ``multinomial`` draw."""
    scores, tokens = (logits / temperature).sort(dim=-1, descending=True)
    shares = scores[:, :top_k].softmax(dim=-1)
    if top_p is not None:
        shares = shares * (shares.cumsum(dim=-1) - shares < top_p)
    return tokens.gather(1, torch.multinomial(shares, 1, generator=generator)).flatten()


def sample_by_inversion(logits, *, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Throw a number onto the shares laid side by side."""
    scores, tokens = logits.topk(min(top_k or logits.size(-1), logits.size(-1)), dim=-1)
    shares = torch.softmax(scores / temperature, dim=-1)
    if top_p is not None:
        keep = torch.ones_like(shares, dtype=torch.bool)
        keep[:, 1:] = shares.cumsum(dim=-1)[:, :-1] < top_p
        shares = shares * keep
    upto = shares.cumsum(dim=-1)
    thrown = torch.rand(len(upto), 1, generator=generator) * upto[:, -1:]
    place = (thrown >= upto).sum(dim=-1, keepdim=True).clamp(max=upto.size(-1) - 1)
    return tokens.gather(1, place)[:, 0]


ANSWERS = {
    "sample_tokens": (sample_by_noise, sample_by_sorting, sample_by_inversion),
}
