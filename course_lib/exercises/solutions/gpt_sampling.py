"""Right answers of chapter 18 that write: the cache, sampling, and a look at the programs."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.decoding import sample_tokens
from course_lib.gpt import GPTCache
from course_lib.transformer import check_ids


class CacheByCat:
    """Put new keys and values behind the old ones; write the layers out."""

    def __init__(self, model):
        if model.training:
            raise ValueError("eval mode, please")
        self.model, self.past = model, [None] * len(model.layers)

    @property
    def length(self):
        """Count what is kept."""
        return 0 if self.past[0] is None else self.past[0][0].size(2)

    def __call__(self, ids):
        """Read what is new under a mask of places."""
        model, start, T = self.model, self.length, ids.size(1)
        check_ids(ids, model.config.vocab_size, model.config.max_len, "text")
        if T <= start or (start and len(self.past[0][0]) != len(ids)):
            raise ValueError(f"{tuple(ids.shape)} after {start} tokens")
        place = torch.arange(T, device=ids.device)
        visible = place[start:, None] >= place  # (T - start, T)
        with torch.no_grad():
            x = model.embedding(ids[:, start:]) + model.positions.weight[place[start:]]
            for n, layer in enumerate(model.layers):
                q, *new = layer.self_attn.project(layer.add_norm1.norm(x))
                old = self.past[n]
                grown = (
                    new if old is None else [torch.cat(p, 2) for p in zip(old, new, strict=True)]
                )
                self.past[n] = grown
                scores = (q @ grown[0].mT / math.sqrt(q.size(-1))).where(visible, -torch.inf)
                x = x + layer.self_attn.merge(scores.softmax(dim=-1) @ grown[1])
                x = x + layer.feed_forward(layer.add_norm2.norm(x))
            return model.output(model.norm(x))


class CacheTokenByToken(nn.Module):
    """Read several new tokens one after the other, each into a place of its own: no mask."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        if model.training:
            raise ValueError("this model would drop numbers")
        self.model, self.length = model, 0
        self.rooms: dict[int, Tensor] = {}

    @torch.inference_mode()
    def forward(self, ids: Tensor) -> Tensor:
        """Step through what is new."""
        c, rows = self.model.config, {room.size(1) for room in self.rooms.values()}
        check_ids(ids, c.vocab_size, c.max_len, "text")
        if ids.size(1) <= self.length or rows not in (set(), {len(ids)}):
            raise ValueError(f"no token is new in {tuple(ids.shape)}, or other rows")
        return torch.cat([self.step(token) for token in ids[:, self.length :].split(1, 1)], dim=1)

    def step(self, token: Tensor) -> Tensor:
        """Read one token of each row."""
        model, place = self.model, self.length
        x = model.embedding(token) + model.positions.weight[place]
        for n, layer in enumerate(model.layers):
            x = layer.add_norm1(x, lambda y, n=n, layer=layer: self.ask(n, layer.self_attn, y))
            x = layer.add_norm2(x, lambda y, layer=layer: layer.feed_forward(y))
        self.length += 1
        return model.output(model.norm(x))

    def ask(self, n: int, attention: nn.Module, y: Tensor) -> Tensor:
        """Fill one place, and ask up to it."""
        q, k, v = attention.project(y)
        if n not in self.rooms:
            size = list(k.shape)
            size[2] = self.model.config.max_len
            self.rooms[n] = torch.zeros(2, *size, dtype=k.dtype)
        self.rooms[n][:, :, :, self.length] = torch.stack([k, v])[:, :, :, 0]
        keys, values = self.rooms[n][:, :, :, : self.length + 1]
        return attention.merge(F.scaled_dot_product_attention(q, keys, values))


def sample_by_hand(model, ids, max_new_tokens, temperature=1.0, top_k=None, top_p=None,
                   generator=None, *, cached=True):  # fmt: skip
    """Draw with lines of one's own; make a new cache for nothing but the first window."""
    check_ids(ids, model.config.vocab_size, ids.size(-1), "text")
    if temperature <= 0 or top_k not in (None, *range(1, 999)) or not 0 < (top_p or 1) <= 1:
        raise ValueError(f"{temperature=}, {top_k=}, {top_p=}")
    mode = model.training
    model.eval()
    cache = GPTCache(model) if cached else None
    with torch.no_grad():
        for _ in range(max_new_tokens):
            window = ids[:, max(0, ids.size(1) - model.config.max_len) :]
            if cache is not None and window.size(1) == ids.size(1):
                last = cache(ids)[:, -1]
            else:
                last = model(window)[0][:, -1]
            shares, tokens = (last / temperature).softmax(dim=-1).sort(dim=-1, descending=True)
            if top_k is not None:
                shares[:, top_k:] = 0.0
            if top_p is not None:
                shares = shares / shares.sum(dim=-1, keepdim=True)
                shares[shares.cumsum(dim=-1) - shares >= top_p] = 0.0
            place = torch.multinomial(shares, num_samples=1, generator=generator)
            ids = torch.cat((ids, tokens.gather(1, place)), dim=1)
    model.train(mode)
    return ids


def sample_into_room(model, ids, max_new_tokens, temperature=1.0, top_k=None, top_p=None,
                     generator=None, *, cached=True):  # fmt: skip
    """Write into places that are there from the start; a dropped cache is deleted."""
    if ids.size(1) == 0:
        raise ValueError("there is no text to go on with")
    was, limit, V = model.training, model.config.max_len, model.config.vocab_size
    text, ended = F.pad(ids, (0, max_new_tokens)), torch.zeros(len(ids)) > 0
    how = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "generator": generator}
    try:
        model.eval()
        score = GPTCache(model) if cached else None
        with torch.inference_mode():
            for end in range(ids.size(1), text.size(1)):
                score = score if end <= limit else None
                read = text[:, max(0, end - limit) : end]
                logits = score(read) if score else model(read)[0]
                wider = torch.cat([logits, torch.full_like(logits[..., :1], -torch.inf)], dim=-1)
                text[:, end] = sample_tokens(wider, ended, V, **how)
    finally:
        model.train(was)
    return text


ANSWERS = {
    "GPTCache": (CacheByCat, CacheTokenByToken),
    "sample": (sample_by_hand, sample_into_room),
}
