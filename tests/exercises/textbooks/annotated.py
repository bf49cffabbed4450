"""Correct answers in the style of The Annotated Transformer."""

import copy
import math

import torch
from torch import nn

from course_lib.add_norm import AddNorm, LayerNorm
from course_lib.decoder import DecoderLayer
from course_lib.encoder import EncoderLayer
from course_lib.feed_forward import FeedForward
from course_lib.masks import causal_mask, padding_mask
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import PositionalEncoding
from course_lib.support.attention_capture import capture_attention
from course_lib.training import label_smoothed_cross_entropy


def attention(query, key, value, mask=None, dropout=None):
    """Attention that takes a dropout layer, and fills with a large negative number."""
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


class MultiHeadedAttention(nn.Module):
    """Attention with four projections in one list, which always returns the weights."""

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        assert d_model % h == 0
        self.d_k, self.h = d_model // h, h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn = None
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        nbatches = query.size(0)
        query, key, value = (
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value), strict=False)
        )
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x), self.attn


class NormWithA2AndB2(nn.Module):
    """A norm that adds eps to the standard deviation, whose variance is divided by d_model."""

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True, unbiased=False)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    """A pre-norm residual connection, like the book's, with the paper's order as an option."""

    def __init__(self, size, dropout, norm_first=True):
        super().__init__()
        self.layer_norm = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.first = norm_first

    def forward(self, x, sublayer):
        if self.first:
            return x + self.dropout(sublayer(self.layer_norm(x)))
        return self.layer_norm(x + self.dropout(sublayer(x)))


class PositionwiseFeedForward(nn.Module):
    """A feed-forward network without a choice of activation."""

    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_2(self.dropout(self.w_1(x).relu()))


def sines_and_cosines(max_len, d_model):
    """Fill the even columns, and then the odd columns."""
    pe = torch.zeros(max_len, d_model)
    position = torch.arange(0, max_len).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)
    return pe


def subsequent_mask(size):
    """Return the positions that do not come later, without a device."""
    attn_shape = (size, size)
    return torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8) == 0


class LayerWithSublayers(nn.Module):
    """A layer with both residual connections in one list."""

    def __init__(self, size, h, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadAttention(size, h)
        self.feed_forward = FeedForward(size, d_ff)
        self.sublayer = clones(AddNorm(size, dropout), 2)
        self.size = size

    def forward(self, x, mask=None):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask)[0])
        return self.sublayer[1](x, self.feed_forward)


class EncoderOfClones(nn.Module):
    """An encoder that copies one layer N times, and initializes each copy."""

    def __init__(self, N, size, h, d_ff, dropout=0.1):
        super().__init__()
        self.layers = clones(EncoderLayer(size, h, d_ff, dropout), N)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class DecoderLayerWithSublayers(nn.Module):
    """A decoder layer that takes the source mask before the target mask."""

    def __init__(self, size, h, d_ff, dropout):
        super().__init__()
        self.size = size
        self.self_attn = MultiHeadAttention(size, h)
        self.src_attn = MultiHeadAttention(size, h)
        self.feed_forward = FeedForward(size, d_ff)
        self.sublayer = clones(AddNorm(size, dropout), 3)

    def forward(self, x, memory, src_mask=None, tgt_mask=None):
        m = memory
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask)[0])
        x = self.sublayer[1](x, lambda x: self.src_attn(x, m, m, src_mask)[0])
        return self.sublayer[2](x, self.feed_forward)


class Embeddings(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)
        self.d_model = d_model

    def forward(self, x):
        return self.lut(x) * math.sqrt(self.d_model)


class Stack(nn.Module):
    """A stack of N layers without a final norm."""

    def __init__(self, layer, N):
        super().__init__()
        self.layers = clones(layer, N)

    def forward(self, x, *given):
        for layer in self.layers:
            x = layer(x, *given)
        return x


class EncoderDecoder(nn.Module):
    """A model with its own stacks, which shares one embedding matrix or none."""

    def __init__(self, config):
        super().__init__()
        c = self.config = config
        sizes = (c.d_model, c.num_heads, c.d_ff, c.dropout)
        position = PositionalEncoding(c.d_model, c.max_len, c.dropout)
        self.encoder = Stack(EncoderLayer(*sizes), c.num_encoder_layers)
        self.decoder = Stack(DecoderLayer(*sizes), c.num_decoder_layers)
        self.src_embed = nn.Sequential(Embeddings(c.d_model, c.src_vocab_size), position)
        self.tgt_embed = nn.Sequential(Embeddings(c.d_model, c.tgt_vocab_size), position)
        self.generator = nn.Linear(c.d_model, c.tgt_vocab_size, bias=False)
        if c.tie_embeddings == "all":
            self.src_embed[0].lut.weight = self.tgt_embed[0].lut.weight = self.generator.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        for embed in (self.src_embed, self.tgt_embed):
            nn.init.normal_(embed[0].lut.weight, std=c.d_model**-0.5)

    def encode(self, src):
        return self.encoder(self.src_embed(src), padding_mask(src, self.config.pad_id))

    def decode(self, tgt, memory, src):
        tgt_mask = padding_mask(tgt, self.config.pad_id)
        tgt_mask = tgt_mask & causal_mask(tgt.size(-1)).type_as(tgt_mask.data)
        src_mask = padding_mask(src, self.config.pad_id)
        return self.generator(self.decoder(self.tgt_embed(tgt), memory, tgt_mask, src_mask))

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), src)

    def attention_maps(self, src, tgt):
        layers = self.decoder.layers
        parts = {
            "encoder": [layer.self_attn for layer in self.encoder.layers],
            "decoder": [layer.self_attn for layer in layers],
            "cross": [layer.cross_attn for layer in layers],
        }
        return capture_attention(parts, lambda: self(src, tgt))


def rate(step, model_size, warmup, factor=1.0):
    """Return the learning rate, with step 0 treated as step 1."""
    if step == 0:
        step = 1
    return factor * (model_size ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5)))


def loss_of_a_batch(model, src, tgt, pad):
    """Compute the loss of shifted targets, with the default smoothing."""
    tgt, tgt_y = tgt[:, :-1], tgt[:, 1:]
    return label_smoothed_cross_entropy(model(src, tgt), tgt_y, pad_id=pad)


def greedy(model, src, start_symbol, end_symbol):
    """Decode greedily, and keep every row until the end."""
    training, pad = model.training, model.config.pad_id
    model.eval()
    with torch.no_grad():
        memory = model.encode(src)
        ys = torch.zeros(len(src), 1).fill_(start_symbol).type_as(src.data)
        for _ in range(model.config.max_len):
            prob = model.decode(ys, memory, src)[:, -1].clone()
            prob[:, pad] = -float("inf")
            _, next_word = torch.max(prob, dim=1)
            next_word[(ys == end_symbol).any(1)] = pad
            ys = torch.cat([ys, next_word.unsqueeze(1)], dim=1)
            if (ys == end_symbol).any(1).all():
                break
    model.train(training)
    return ys[:, 1:]


ANSWERS = {
    "scaled_dot_product_attention": attention,
    "MultiHeadAttention": MultiHeadedAttention,
    "sinusoidal_encoding": sines_and_cosines,
    "LayerNorm": NormWithA2AndB2,
    "AddNorm": SublayerConnection,
    "FeedForward": PositionwiseFeedForward,
    "causal_mask": subsequent_mask,
    "EncoderLayer": LayerWithSublayers,
    "Encoder": EncoderOfClones,
    "DecoderLayer": DecoderLayerWithSublayers,
    "Transformer": EncoderDecoder,
    "warmup_inverse_sqrt": rate,
    "translation_loss": loss_of_a_batch,
    "greedy_decode": greedy,
}
