"""Correct answers in the style of the UvA deep learning tutorial 6."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.multi_head import MultiHeadAttention


def separate_heads(x, num_heads):
    """Reshape and then permute, which makes a copy."""
    *batch, seq_length, embed_dim = x.size()
    x = x.reshape(*batch, seq_length, num_heads, embed_dim // num_heads)
    return x.permute(*range(len(batch)), -2, -3, -1).contiguous()


def expand_mask(mask):
    """Add the axis of the heads to the mask of a matrix or of a batch."""
    if mask.ndim == 3:
        mask = mask.unsqueeze(1)
    while mask.ndim < 4:
        mask = mask.unsqueeze(0)
    return mask


class MultiheadAttention(nn.Module):
    """Attention with three input projections, and the output projection o_proj."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)
        self._reset_parameters()

    def _reset_parameters(self):
        for layer in self.children():
            nn.init.xavier_uniform_(layer.weight)
            layer.bias.data.fill_(0)

    def forward(self, query, key, value, mask=None, return_attention=False):
        if mask is not None:
            mask = expand_mask(mask)
        q, k, v = (
            proj(x).unflatten(-1, (self.num_heads, self.head_dim)).permute(0, 2, 1, 3)
            for proj, x in zip(self.children(), (query, key, value), strict=False)
        )
        attn_logits = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.head_dim)
        if mask is not None:
            attn_logits = attn_logits.masked_fill(mask == 0, -9e15)
        attention = F.softmax(attn_logits, dim=-1)
        values = torch.matmul(attention, v).permute(0, 2, 1, 3)
        o = self.o_proj(values.reshape(*query.shape[:2], -1))
        return (o, attention) if return_attention else (o, None)


class EncoderBlock(nn.Module):
    """A block that contains its residual connections, norms and feed-forward layer."""

    def __init__(self, input_dim, num_heads, dim_feedforward, dropout=0.0):
        super().__init__()
        self.self_attn = MultiHeadAttention(input_dim, num_heads)
        self.linear_net = nn.Sequential(
            nn.Linear(input_dim, dim_feedforward),
            nn.ReLU(inplace=True),
            nn.Linear(dim_feedforward, input_dim),
        )
        self.norm1 = nn.LayerNorm(input_dim)
        self.norm2 = nn.LayerNorm(input_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        attn_out, _ = self.self_attn(x, x, x, mask)
        x = x + self.dropout(attn_out)
        x = self.norm1(x)
        linear_out = self.linear_net(x)
        x = x + self.dropout(linear_out)
        x = self.norm2(x)
        return x


def accuracy(preds, labels, pad_id):
    """Compute the accuracy by multiplying with a mask."""
    mask = (labels != pad_id).float()
    acc = (preds.argmax(dim=-1) == labels).float()
    return float((acc * mask).sum() / mask.sum())


ANSWERS = {
    "split_heads": separate_heads,
    "MultiHeadAttention": MultiheadAttention,
    "EncoderLayer": EncoderBlock,
    "token_accuracy": accuracy,
}
