"""Correct answers in the style of Dive into Deep Learning."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.encoder import EncoderLayer


class MultiHeadAttentionWithHiddens(nn.Module):
    """Attention in which the batch and the heads share an axis."""

    def __init__(self, num_hiddens, num_heads, dropout, bias=False):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_v = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)

    def transpose_qkv(self, X):
        X = X.reshape(X.shape[0], X.shape[1], self.num_heads, -1).permute(0, 2, 1, 3)
        return X.reshape(-1, X.shape[2], X.shape[3])

    def transpose_output(self, X):
        X = X.reshape(-1, self.num_heads, X.shape[1], X.shape[2]).permute(0, 2, 1, 3)
        return X.reshape(X.shape[0], X.shape[1], -1)

    def forward(self, queries, keys, values, mask=None):
        queries = self.transpose_qkv(self.W_q(queries))
        keys = self.transpose_qkv(self.W_k(keys))
        values = self.transpose_qkv(self.W_v(values))
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(queries.shape[-1])
        if mask is not None:
            whole = mask.expand(len(scores) // self.num_heads, self.num_heads, *scores.shape[1:])
            scores = scores.masked_fill(~whole.reshape(scores.shape), -torch.inf)
        output = torch.bmm(F.softmax(scores, dim=-1), values)
        return self.W_o(self.transpose_output(output)), None


class EncodingOfP(nn.Module):
    """An encoding with the table as a plain attribute, which ``forward`` moves to the device."""

    def __init__(self, num_hiddens, dropout, max_len=1000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.P = torch.zeros((1, max_len, num_hiddens))
        X = torch.arange(max_len, dtype=torch.float32).reshape(-1, 1)
        X = X / torch.pow(10000, torch.arange(0, num_hiddens, 2) / num_hiddens)
        self.P[:, :, 0::2] = torch.sin(X)
        self.P[:, :, 1::2] = torch.cos(X)

    def forward(self, X):
        X = X + self.P[:, : X.shape[1], :].to(X.device)
        return self.dropout(X)


class AddNormByShape(nn.Module):
    """An AddNorm that takes the shape of the norm, and a sub-layer instead of its output."""

    def __init__(self, norm_shape, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.ln = nn.LayerNorm(norm_shape)

    def forward(self, X, sublayer):
        return self.ln(self.dropout(sublayer(X)) + X)


class PositionWiseFFN(nn.Module):
    """A feed-forward network with the book's names of layers, and without dropout."""

    def __init__(self, ffn_num_hiddens, ffn_num_outputs):
        super().__init__()
        self.dense1 = nn.Linear(ffn_num_outputs, ffn_num_hiddens)
        self.relu = nn.ReLU()
        self.dense2 = nn.Linear(ffn_num_hiddens, ffn_num_outputs)

    def forward(self, X):
        return self.dense2(self.relu(self.dense1(X)))


class TransformerEncoder(nn.Module):
    """An encoder whose blocks have names in an ``nn.Sequential``."""

    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads, num_blks, dropout):
        super().__init__()
        self.num_hiddens = num_hiddens
        self.blks = nn.Sequential()
        for i in range(num_blks):
            block = EncoderLayer(num_hiddens, num_heads, ffn_num_hiddens, dropout)
            self.blks.add_module("block" + str(i), block)

    def forward(self, X, mask=None):
        for blk in self.blks:
            X = blk(X, mask)
        return X


ANSWERS = {
    "MultiHeadAttention": MultiHeadAttentionWithHiddens,
    "PositionalEncoding": EncodingOfP,
    "AddNorm": AddNormByShape,
    "FeedForward": PositionWiseFFN,
    "Encoder": TransformerEncoder,
}
