"""Right answers in the style of nanoGPT."""

import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm
from course_lib.decoder import DecoderLayer
from course_lib.encoder import EncoderLayer
from course_lib.feed_forward import FeedForward
from course_lib.masks import causal_mask, padding_mask
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import PositionalEncoding
from course_lib.transformer import capture_attention, initialize


def slow_attention(q, k, v, mask=None, dropout=0.0):
    """Hide with minus infinity what the mask does not show."""
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    if mask is not None:
        att = att.masked_fill(mask == 0, float("-inf"))
    att = F.softmax(att, dim=-1)
    return F.dropout(att, dropout) @ v, att


class CrossAttention(nn.Module):
    """Take a config, and call the kernel, which returns no weights."""

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_q = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.c_k = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.c_v = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def heads(self, x):
        B, T, C = x.size()
        return x.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.heads(self.c_q(query)), self.heads(self.c_k(key)), self.heads(self.c_v(value))
        p = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
        return self.c_proj(y.transpose(1, 2).contiguous().view(query.shape)), None


class NormWithOptionalBias(nn.Module):
    """Call torch's function for all but the parameters."""

    def __init__(self, ndim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim))
        self.eps = eps

    def forward(self, input):
        centred = input - input.mean(-1, keepdim=True)
        std = (centred.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return torch.addcmul(self.bias, centred / std, self.weight)


class Residual(nn.Module):
    """Keep the norm as ln, and add first."""

    def __init__(self, config):
        super().__init__()
        self.ln = nn.LayerNorm(config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.pre = config.norm_first

    def forward(self, x, sublayer):
        if self.pre:
            return x + self.drop(sublayer(self.ln(x)))
        return self.ln(x + self.drop(sublayer(x)))


class MLP(nn.Module):
    """Take a config, with the paper's activation; dropout comes last."""

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


def tril_mask(block_size):
    """Compare the lower triangle of ones with one."""
    return torch.tril(torch.ones(block_size, block_size)) == 1


class Block(nn.Module):
    """Take a config, with the norms where the paper has them."""

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
    """Fold the blocks into one call."""

    def __init__(self, config):
        super().__init__()
        sizes = (config.n_embd, config.n_head, config.d_ff, config.dropout)
        self.h = nn.ModuleList([EncoderLayer(*sizes) for _ in range(config.n_layer)])

    def forward(self, x, mask=None):
        return functools.reduce(lambda x, block: block(x, mask), self.h, x)


class BlockWithCrossAttention(nn.Module):
    """Put a second attention between the two sub-layers of a block."""

    def __init__(self, config):
        super().__init__()
        self.attn = MultiHeadAttention(config.n_embd, config.n_head)
        self.cross = MultiHeadAttention(config.n_embd, config.n_head)
        self.mlp = FeedForward(config.n_embd, config.d_ff)
        self.res = nn.ModuleList(AddNorm(config.n_embd, config.dropout) for _ in range(3))

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        x = self.res[0](x, lambda x: self.attn(x, x, x, self_mask)[0])
        x = self.res[1](x, lambda x: self.cross(x, memory, memory, cross_mask)[0])
        return self.res[2](x, self.mlp)


class TranslationModel(nn.Module):
    """Keep the parts in two ``nn.ModuleDict``, and tie from the side of the head."""

    def __init__(self, config):
        super().__init__()
        c = self.config = config
        tables = [nn.Embedding(n, c.d_model) for n in (c.src_vocab_size, c.tgt_vocab_size)]
        self.reader = self._side(EncoderLayer, c.num_encoder_layers, tables[0])
        self.writer = self._side(DecoderLayer, c.num_decoder_layers, tables[1])
        self.lm_head = nn.Linear(c.d_model, c.tgt_vocab_size, bias=False)
        if c.tie_embeddings == "all":
            self.reader.wte.weight = self.writer.wte.weight
        if c.tie_embeddings != "none":
            self.writer.wte.weight = self.lm_head.weight
        if c.tie_embeddings == "all":
            self.reader.wte.weight = self.lm_head.weight
        initialize(self)

    def _side(self, layer, number, table):
        c = self.config
        more = (c.dropout, c.norm_first, c.activation)
        block = functools.partial(layer, c.d_model, c.num_heads, c.d_ff, *more, d_k=c.d_k, d_v=c.d_v)
        side = nn.ModuleDict({"wte": table, "drop": PositionalEncoding(c.d_model, c.max_len)})
        side["h"] = nn.ModuleList([block() for _ in range(number)])
        side["ln_f"] = nn.LayerNorm(c.d_model) if c.norm_first else nn.Identity()
        return side

    def _run(self, side, idx, *given):
        x = side.drop(side.wte(idx) * math.sqrt(self.config.d_model))
        for block in side.h:
            x = block(x, *given)
        return side.ln_f(x)

    def encode(self, src):
        return self._run(self.reader, src, padding_mask(src, self.config.pad_id))

    def decode(self, tgt, memory, src):
        mask = causal_mask(tgt.size(1), tgt.device) & padding_mask(tgt, self.config.pad_id)
        seen = padding_mask(src, self.config.pad_id)
        return self.lm_head(self._run(self.writer, tgt, memory, mask, seen))

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), src)

    def attention_maps(self, src, tgt):
        parts = {
            "encoder": [block.self_attn for block in self.reader.h],
            "decoder": [block.self_attn for block in self.writer.h],
            "cross": [block.cross_attn for block in self.writer.h],
        }
        return capture_attention(parts, lambda: self(src, tgt))


def get_lr(it, d_model, warmup_iters):
    """Return early while the rate rises."""
    if it < warmup_iters:
        return d_model**-0.5 * it * warmup_iters**-1.5
    return d_model**-0.5 * it**-0.5


def train_step(model, optimizer, losses, lr, grad_clip=0.0):
    """Add gradients up over micro-steps; clip only if asked to."""
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    total = 0.0
    optimizer.zero_grad(set_to_none=True)
    for loss in losses:
        loss.backward()
        total = total + loss.detach()
    if grad_clip:
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    return total


def sample_top_k(logits, temperature=1.0, top_k=None):
    """Cut and draw without top_p and a generator."""
    logits = logits / temperature
    if top_k is not None:
        v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
        logits[logits < v[:, [-1]]] = -float("Inf")
    return torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)[:, 0]


def get_batch(data, batch_size, block_size):
    """Draw one offset a row, and cut two slices."""
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


class LanguageModel(nn.Module):
    """Hold a list of blocks, and tie from the side of the head."""

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
    """Name the layers c_attn and c_proj, and take the sizes from a config."""

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
    "scaled_dot_product_attention": slow_attention,
    "MultiHeadAttention": CrossAttention,
    "LayerNorm": NormWithOptionalBias,
    "AddNorm": Residual,
    "FeedForward": MLP,
    "causal_mask": tril_mask,
    "EncoderLayer": Block,
    "Encoder": StackOfBlocks,
    "DecoderLayer": BlockWithCrossAttention,
    "Transformer": TranslationModel,
    "warmup_inverse_sqrt": get_lr,
    "training_step": train_step,
    "sample_tokens": sample_top_k,
    "random_windows": get_batch,
    "DecoderOnly": LanguageModel,
    "CausalSelfAttention": CausalSelfAttention,
}
