"""Correct answers in the style of nanoGPT."""

import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.encoder import EncoderLayer
from course_lib.feed_forward import FeedForward
from course_lib.masks import causal_mask
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import PositionalEncoding
from course_lib.transformer import initialize


class MLP(nn.Module):
    """A feed-forward network that takes a config; dropout comes last."""

    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, config.d_ff)
        self.relu = nn.ReLU()
        self.c_proj = nn.Linear(config.d_ff, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        x = self.c_fc(x)
        x = self.relu(x)
        x = self.c_proj(x)
        x = self.dropout(x)
        return x


class Block(nn.Module):
    """A block that takes a config, with norms in the paper's places."""

    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = MultiHeadAttention(config.n_embd, config.n_head)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = FeedForward(config.n_embd, config.d_ff)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x, mask=None):
        x = self.ln_1(x + self.dropout(self.attn(x, x, x, mask)[0]))
        x = self.ln_2(x + self.dropout(self.mlp(x)))
        return x


class StackOfBlocks(nn.Module):
    """A stack that folds its blocks into one call."""

    def __init__(self, config):
        super().__init__()
        sizes = (config.n_embd, config.n_head, config.d_ff, config.dropout)
        self.h = nn.ModuleList([EncoderLayer(*sizes) for _ in range(config.n_layer)])

    def forward(self, x, mask=None):
        return functools.reduce(lambda x, block: block(x, mask), self.h, x)


def sample_top_k(logits, temperature=1.0, top_k=None):
    """Truncate to the top k and sample, without top_p or a generator."""
    logits = logits / temperature
    if top_k is not None:
        v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
        logits[logits < v[:, [-1]]] = -float("Inf")
    return torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)[:, 0]


def get_batch(data, batch_size, block_size):
    """Draw one offset per row, and cut two slices."""
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


class LanguageModel(nn.Module):
    """A language model with a list of blocks, tied from the head's side."""

    def __init__(self, config):
        super().__init__()
        c = self.config = config
        sizes = (c.d_model, c.num_heads, c.d_ff, c.dropout, c.norm_first, c.activation)
        norm = nn.LayerNorm(c.d_model) if c.norm_first else nn.Identity()
        blocks = [EncoderLayer(*sizes) for _ in range(c.num_decoder_layers)]
        wte = nn.Embedding(c.tgt_vocab_size, c.d_model)
        wpe = PositionalEncoding(c.d_model, c.max_len, c.dropout)
        parts = {"wte": wte, "wpe": wpe, "h": nn.ModuleList(blocks), "ln_f": norm}
        self.transformer = nn.ModuleDict(parts)
        self.lm_head = nn.Linear(c.d_model, c.tgt_vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        initialize(self)

    def forward(self, idx):
        _, t = idx.size()
        assert t <= self.config.max_len
        x = self.transformer.wpe(self.transformer.wte(idx) * math.sqrt(self.config.d_model))
        for block in self.transformer.h:
            x = block(x, causal_mask(t, idx.device))
        return self.lm_head(self.transformer.ln_f(x))


class CausalSelfAttention(nn.Module):
    """Attention with layers c_attn and c_proj, and with sizes from a config."""

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (y.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for y in (q, k, v))
        p = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


ANSWERS = {
    "FeedForward": MLP,
    "EncoderLayer": Block,
    "Encoder": StackOfBlocks,
    "sample_tokens": sample_top_k,
    "random_windows": get_batch,
    "DecoderOnly": LanguageModel,
    "CausalSelfAttention": CausalSelfAttention,
}
