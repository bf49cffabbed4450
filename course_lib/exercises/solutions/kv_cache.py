"""Other right answers to chapter 13."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.kv_cache import AttentionCache, Engine, attend_to_past
from course_lib.masks import causal_mask, padding_mask
from course_lib.multi_head import join_heads, split_heads


class ConcatenatingCache:
    """Let the tensors grow with ``torch.cat``: the core, without room and without errors."""

    def __init__(self, max_len):
        self.keys = self.values = None

    @property
    def length(self):
        """Count the tokens stored or read."""
        return 0 if self.keys is None else self.keys.shape[2]

    def append(self, keys, values):
        """Store new keys and values; return all so far."""
        if self.keys is None:
            self.keys, self.values = keys, values
        else:
            self.keys = torch.cat((self.keys, keys), dim=2)
            self.values = torch.cat((self.values, values), dim=2)
        return self.keys, self.values

    def reorder(self, rows):
        """Let row i continue row ``rows[i]``."""
        self.keys, self.values = self.keys[rows], self.values[rows]

    def truncate(self, length):
        """Forget the last tokens."""
        self.keys, self.values = self.keys[:, :, :length], self.values[:, :, :length]


class CopyingCache:
    """Write with ``index_copy_``, reorder with a full copy, and refuse what does not fit."""

    def __init__(self, max_len):
        self.max_len, self.length = max_len, 0
        self.keys = self.values = None

    def append(self, keys, values):
        """Store new keys and values; return all so far."""
        rows, heads, new, _ = keys.shape
        if self.keys is None:
            self.keys = torch.zeros(rows, heads, self.max_len, keys.shape[-1]).to(keys)
            self.values = torch.zeros(rows, heads, self.max_len, values.shape[-1]).to(values)
        if rows != self.keys.shape[0]:
            raise ValueError(f"{rows} rows do not continue {self.keys.shape[0]}")
        if self.length + new > self.max_len:
            raise ValueError(f"no room for {new} more tokens after {self.length}")
        places = torch.arange(self.length, self.length + new, device=keys.device)
        self.keys.index_copy_(2, places, keys)
        self.values.index_copy_(2, places, values)
        self.length += new
        return self.keys.narrow(2, 0, self.length), self.values.narrow(2, 0, self.length)

    def reorder(self, rows):
        """Let row i continue row ``rows[i]``."""
        if self.keys is not None:
            self.keys = self.keys.index_select(0, rows)
            self.values = self.values.index_select(0, rows)

    def truncate(self, length):
        """Forget the last tokens."""
        self.length = length


class EngineOfLists:
    """Grow a list of keys and values for each layer, and write the layers out: the core."""

    def __init__(self, model, src, max_len):
        self.model, self.length = model, 0
        self.mask = (src != model.config.pad_id)[:, None, None, :]
        with torch.no_grad():
            memory = model.encode(src)
            self.memory = [
                [split_heads(w(memory), layer.cross_attn.num_heads) for w in
                 (layer.cross_attn.w_k, layer.cross_attn.w_v)]
                for layer in model.decoder.layers
            ]  # fmt: skip
        self.past = [None for _ in model.decoder.layers]

    @torch.no_grad()
    def step(self, ids, *, all_positions=False):
        """Score the next token."""
        x = self.model.tgt_embedding(ids) * math.sqrt(self.model.config.d_model)
        x = self.model.positions(x, self.length)
        self.length += ids.shape[1]
        for n, layer in enumerate(self.model.decoder.layers):
            x = layer.add_norm1(x, lambda y, n=n: self._look_back(n, y))
            x = layer.add_norm2(x, lambda y, n=n: self._look_at_source(n, y))
            x = layer.add_norm3(x, layer.feed_forward)
        if self.model.decoder.norm is not None:
            x = self.model.decoder.norm(x)
        logits = self.model.output(x)
        return logits if all_positions else logits[:, -1, :]

    def _look_back(self, n, y):
        """Attend to the target in layer n."""
        attention = self.model.decoder.layers[n].self_attn
        projections = (attention.w_q, attention.w_k, attention.w_v)
        q, k, v = (split_heads(w(y), attention.num_heads) for w in projections)
        if self.past[n] is not None:
            k, v = (torch.cat(pair, dim=2) for pair in zip(self.past[n], (k, v), strict=True))
        self.past[n] = (k, v)
        mask = causal_mask(self.length)[-y.shape[1] :]
        return attention.w_o(join_heads(F.scaled_dot_product_attention(q, k, v, mask)))

    def _look_at_source(self, n, y):
        """Attend to the memory in layer n; copy it for every row of a source."""
        attention = self.model.decoder.layers[n].cross_attn
        beams = len(y) // len(self.mask)
        k, v, mask = (x.repeat_interleave(beams, 0) for x in (*self.memory[n], self.mask))
        q = split_heads(attention.w_q(y), attention.num_heads)
        return attention.w_o(join_heads(F.scaled_dot_product_attention(q, k, v, mask)))

    def reorder(self, rows, sources=None):
        """Let row i continue row ``rows[i]``."""
        self.past = [(k[rows], v[rows]) for k, v in self.past]
        if sources is not None:
            self.memory = [[part[sources] for part in pair] for pair in self.memory]
            self.mask = self.mask[sources]

    def truncate(self, length):
        """Forget the last tokens."""
        self.length = length
        self.past = [(k[:, :, :length], v[:, :, :length]) for k, v in self.past]


class EngineOfModules(Engine):
    """Copy the memory for each row, and call the decoder's own cross-attention on it."""

    def __init__(self, model, src, max_len):
        self.model, self.src = model, src
        self.keys = self.values = None
        with torch.no_grad():
            self.memory = model.encode(src)
        self.layers = model.decoder.layers
        self.caches = [AttentionCache(max_len) for _ in self.layers]
        self.cross = [self._projected(layer.cross_attn) for layer in self.layers]

    @torch.no_grad()
    def _projected(self, attention):
        """Project the memory."""
        return [
            split_heads(w(self.memory), attention.num_heads) for w in (attention.w_k, attention.w_v)
        ]

    @torch.inference_mode()
    def step(self, ids, *, all_positions=False):
        """Score the next token."""
        model, c = self.model, self.model.config
        if int(ids.max()) >= c.tgt_vocab_size or len(ids) % len(self.src):
            raise ValueError(f"ids of shape {tuple(ids.shape)} do not fit this model and source")
        group = len(ids) // len(self.src)
        mask = padding_mask(self.src, c.pad_id).repeat_interleave(group, dim=0)
        x = model.positions(model.tgt_embedding(ids).mul(c.d_model**0.5), start=self.length)
        for layer, cache, pair in zip(self.layers, self.caches, self.cross, strict=True):
            own = self._attend(
                layer.self_attn, x if not c.norm_first else layer.add_norm1.norm(x), cache
            )
            x = layer.add_norm1(x, lambda _, own=own: own)
            seen = x if not c.norm_first else layer.add_norm2.norm(x)
            k, v = (part.repeat_interleave(group, dim=0) for part in pair)
            q = split_heads(layer.cross_attn.w_q(seen), c.num_heads)
            source = layer.cross_attn.w_o(join_heads(F.scaled_dot_product_attention(q, k, v, mask)))
            x = layer.add_norm2(x, lambda _, source=source: source)
            x = layer.add_norm3(x, layer.feed_forward)
        logits = model.output((model.decoder.norm or nn.Identity())(x))
        return logits if all_positions else logits[:, -1]

    def _attend(self, attention, x, cache):
        """Attend to all tokens so far."""
        q, k, v = (split_heads(w(x), attention.num_heads) for w in
                   (attention.w_q, attention.w_k, attention.w_v))  # fmt: skip
        return attention.w_o(join_heads(attend_to_past(q, *cache.append(k, v))))

    def reorder(self, rows, sources=None):
        """Let row i continue row ``rows[i]``."""
        super().reorder(rows)
        if sources is not None:
            self.src = self.src[sources]
            self.cross = [[part[sources] for part in pair] for pair in self.cross]


ANSWERS = {
    "AttentionCache": (ConcatenatingCache, CopyingCache),
    "DecodingEngine": (EngineOfLists, EngineOfModules),
}
