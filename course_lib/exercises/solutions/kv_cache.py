"""Right answers of chapter 12 in other styles."""

import math

import torch
from torch import Tensor, nn

from course_lib.attention import scaled_dot_product_attention
from course_lib.kv_cache import LayerCache
from course_lib.kv_cache import attend as ask


def attend_by_chapter_one(attention, x, keys, values, mask=None):
    """Use the attention of chapter 01, and throw the weights away."""
    B, T, _ = x.shape
    queries = attention.w_q(x).view(B, T, attention.num_heads, -1).permute(0, 2, 1, 3)
    blend, _ = scaled_dot_product_attention(queries, keys, values, mask)
    return attention.w_o(blend.permute(0, 2, 1, 3).reshape(B, T, -1))


def attend_head_by_head(
    attention: nn.Module, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Let one head after the other ask its own keys."""
    asked, said = attention.w_q(x).chunk(attention.num_heads, dim=-1), []
    hidden = None if mask is None else ~mask.expand(len(x), keys.size(1), x.size(1), keys.size(2))
    for head, q in enumerate(asked):
        scores = q @ keys[:, head].mT / math.sqrt(q.size(-1))  # (B, T, S)
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, head], -torch.inf)
        said.append(scores.softmax(dim=-1).nan_to_num(0.0) @ values[:, head])
    return attention.w_o(torch.cat(said, dim=-1))


def attend_by_sums(attention, x, keys, values, mask=None):
    """Write the sums down as they are, the scale inside the queries."""
    q = attention.w_q(x).unflatten(-1, (attention.num_heads, -1))
    scores = torch.einsum("bthd,bhsd->bhts", q * q.size(-1) ** -0.5, keys)
    weights = torch.ones_like(scores) if mask is None else mask.to(scores).expand_as(scores)
    weights = weights * (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return attention.w_o(torch.einsum("bhts,bhsd->bthd", weights, values).flatten(2))


class LayerByCat:
    """Put new keys and values behind the old ones with ``torch.cat``."""

    def __init__(self, layer, memory):
        self.layer, self.target = layer, None
        self.source = self.project(layer.cross_attn, memory)

    @staticmethod
    def project(attention, x):
        """Return the keys and the values of some vectors, for every head."""
        B, L, _ = x.shape
        return tuple(
            w(x).view(B, L, attention.num_heads, -1).transpose(1, 2)
            for w in (attention.w_k, attention.w_v)
        )

    @property
    def length(self):
        """Count what is kept."""
        return 0 if self.target is None else self.target[0].shape[2]

    def attend_cached(self, x, mask=None):
        """Add what is new, and ask."""
        new = self.project(self.layer.self_attn, x)
        if self.target is not None:
            pairs = zip(self.target, new, strict=True)
            new = tuple(torch.cat(pair, dim=2) for pair in pairs)
        self.target = new
        return ask(self.layer.self_attn, x, *new, mask)

    def __call__(self, x, self_mask=None, cross_mask=None):
        """Go through the three sub-layers."""
        layer = self.layer
        x = layer.add_norm1(x, lambda y: self.attend_cached(y, self_mask))
        x = layer.add_norm2(x, lambda y: ask(layer.cross_attn, y, *self.source, cross_mask))
        return layer.add_norm3(x, lambda y: layer.feed_forward(y))

    def reorder(self, rows):
        """Pick rows."""
        self.source = tuple(kept.index_select(0, rows) for kept in self.source)
        if self.target is not None:
            self.target = tuple(kept.index_select(0, rows) for kept in self.target)


class LayerOfWords(nn.Module):
    """Keep a list with the keys and values of every word; write the norms out."""

    def __init__(self, layer: nn.Module, memory: Tensor) -> None:
        super().__init__()
        self.layer, self.words = layer, []
        cross = layer.cross_attn
        self.source = [
            torch.stack(w(memory).chunk(cross.num_heads, -1), 1) for w in (cross.w_k, cross.w_v)
        ]

    @property
    def target(self) -> list[Tensor]:
        """Put the words side by side."""
        return [torch.stack([word[which] for word in self.words], dim=2) for which in (0, 1)]

    @property
    def length(self) -> int:
        """Count the words."""
        return len(self.words)

    def forward(self, x: Tensor, self_mask: Tensor | None = None, cross_mask=None) -> Tensor:
        """Write what comes before and behind each sub-layer in lines of its own."""
        layer = self.layer
        pre = layer.add_norm1.norm_first
        norms = [layer.add_norm1.norm, layer.add_norm2.norm, layer.add_norm3.norm]
        says = (
            lambda y: self.attend_cached(y, self_mask),
            lambda y: ask(layer.cross_attn, y, self.source[0], self.source[1], cross_mask),
            layer.feed_forward,
        )
        for norm, say in zip(norms, says, strict=True):
            x = x + say(norm(x)) if pre else norm(x + say(x))
        return x

    def attend_cached(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Add one word after the other, then ask."""
        attention = self.layer.self_attn
        for word in x.unbind(dim=1):
            new = [w(word).unflatten(-1, (attention.num_heads, -1)) for w in _both(attention)]
            self.words.append(new)
        return ask(attention, x, *self.target, mask)

    def reorder(self, rows: Tensor) -> None:
        """Pick rows of every word."""
        self.source = [kept[rows] for kept in self.source]
        self.words = [[kept[rows] for kept in word] for word in self.words]


def _both(attention: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Return what makes keys and values."""
    return attention.w_k, attention.w_v


class CacheTokenByToken:
    """Read several new tokens one after the other: no causal mask is needed."""

    def __init__(self, model, src):
        assert_predicts(model)
        self.model, self.length = model, 0
        with torch.no_grad():
            memory = model.encode(src)
            self.layers = [LayerCache(layer, memory) for layer in model.decoder.layers]
        self.real = src != model.config.pad_id

    def __call__(self, tgt):
        """Step through what is new."""
        fits(self.model, tgt, len(self.real), self.length)
        with torch.no_grad():
            read = [self.step(tgt[:, : end + 1]) for end in range(self.length, tgt.size(1))]
        return torch.cat(read, dim=1)

    def step(self, tgt):
        """Read the last token."""
        model, place = self.model, tgt.size(1) - 1
        x = model.tgt_embedding(tgt[:, place]) * model.config.d_model**0.5
        x = (x + model.positions.encoding[place]).unsqueeze(1)
        seen = (tgt != model.config.pad_id)[:, None, None]
        for layer in self.layers:
            x = layer(x, seen, self.real[:, None, None])
        self.length += 1
        return model.output((model.decoder.norm or nn.Identity())(x))

    def reorder(self, rows):
        """Pick rows."""
        self.real = self.real[rows]
        [layer.reorder(rows) for layer in self.layers]


class CacheWithIndices(nn.Module):
    """Say by places who may look: a key is not later than its query, and no padding."""

    def __init__(self, model: nn.Module, src: Tensor) -> None:
        super().__init__()
        assert_predicts(model)
        self.model, self.length = model, 0
        self.src = src
        with torch.inference_mode():
            memory = model.encode(src)
            self.layers = [LayerCache(layer, memory) for layer in model.decoder.layers]

    def forward(self, tgt: Tensor) -> Tensor:
        """Place everything, and cut off what is old before the first layer."""
        model, pad_id, start = self.model, self.model.config.pad_id, self.length
        fits(model, tgt, self.src.size(0), start)
        with torch.inference_mode():
            table = model.tgt_embedding(tgt) * math.sqrt(model.config.d_model)
            x = model.positions(table)[:, start:]
            place = torch.arange(tgt.size(1))
            past = place[start:, None] >= place
            masks = past & (tgt != pad_id)[:, None, None], (self.src != pad_id)[:, None, None]
            for layer in self.layers:
                x = layer(x, *masks)
            if model.decoder.norm is not None:
                x = model.decoder.norm(x)
            self.length = tgt.size(1)
            return model.output(x)

    def reorder(self, rows: Tensor) -> None:
        """Pick rows."""
        self.src = self.src[rows]
        for layer in self.layers:
            layer.reorder(rows)


def assert_predicts(model):
    """Refuse a model that would drop something."""
    if model.training:
        raise ValueError("eval mode, please")


def fits(model, tgt, rows, length):
    """Refuse a target that does not go on from what was read."""
    config = model.config
    if len(tgt) != rows or not length < tgt.size(1) <= config.max_len:
        raise ValueError(f"{tuple(tgt.shape)} after {rows} rows of {length}")
    if tgt.min() < 0 or tgt.max() >= config.tgt_vocab_size:
        raise ValueError("no such token")


ANSWERS = {
    "attend": (attend_by_chapter_one, attend_head_by_head, attend_by_sums),
    "LayerCache": (LayerByCat, LayerOfWords),
    "DecoderCache": (CacheTokenByToken, CacheWithIndices),
}
