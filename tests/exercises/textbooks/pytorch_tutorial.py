"""Correct answers in the style of PyTorch's documentation and tutorials."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.multi_head import MultiHeadAttention


class EncodingOfSequences(nn.Module):
    """An encoding with a buffer ``pe`` whose middle axis is the batch."""

    def __init__(self, d_model, dropout=0.1, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[: x.size(1)].transpose(0, 1)
        return self.dropout(x)


def generate_square_subsequent_mask(sz):
    """Return the additive mask of 0 and -inf."""
    mask = (torch.triu(torch.ones(sz, sz)) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)


def mask_of_the_future(sz):
    """Convert the additive mask into a mask in which True means may look."""
    return generate_square_subsequent_mask(sz) == 0


def key_padding_mask(src, pad_idx):
    """Mark the padding, and invert the mask."""
    src_padding_mask = src == pad_idx
    return src_padding_mask.logical_not().unsqueeze(1).unsqueeze(1)


class TransformerEncoderLayer(nn.Module):
    """A layer with PyTorch's attribute names, and a method for each sub-layer."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, nhead)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout1, self.dropout2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, src, src_mask=None):
        x = src
        x = self.norm1(x + self._sa_block(x, src_mask))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(self, x, attn_mask):
        return self.dropout1(self.self_attn(x, x, x, attn_mask)[0])

    def _ff_block(self, x):
        return self.dropout2(self.linear2(torch.relu(self.linear1(x))))


def loss_fn(logits, tgt_out, pad_id=None):
    """Let ``cross_entropy`` ignore padding, whose smoothing mass is left out."""
    logits, tgt_out = logits.reshape(-1, logits.shape[-1]), tgt_out.reshape(-1)
    if pad_id is None:
        return F.cross_entropy(logits, tgt_out, label_smoothing=0.1)
    hard = F.cross_entropy(logits, tgt_out, ignore_index=pad_id)
    log_probs = F.log_softmax(logits[tgt_out != pad_id], dim=-1)
    others = [index for index in range(logits.shape[-1]) if index != pad_id]
    return 0.9 * hard - 0.1 * log_probs[:, others].mean()


def train_step(model, optimizer, losses, lr):
    """Run a training step with the lines of a tutorial's loop."""
    for g in optimizer.param_groups:
        g["lr"] = lr
    optimizer.zero_grad()
    loss = sum(losses)
    loss.backward()
    optimizer.step()
    return loss.detach()


class KVCache:
    """A cache whose tensors grow with ``torch.cat``, without preallocation or input checks."""

    def __init__(self, max_seq_length):
        self.keys = self.values = None

    @property
    def length(self):
        return 0 if self.keys is None else self.keys.shape[2]

    def append(self, k_val, v_val):
        if self.keys is not None:
            k_val = torch.cat((self.keys, k_val), dim=2)
            v_val = torch.cat((self.values, v_val), dim=2)
        self.keys, self.values = k_val, v_val
        return k_val, v_val

    def reorder(self, rows):
        self.keys, self.values = self.keys[rows], self.values[rows]

    def truncate(self, length):
        self.keys, self.values = self.keys[:, :, :length], self.values[:, :, :length]


class RMSNorm(nn.Module):
    """A norm that computes in float32, with an argument named ``dim``."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x_fp32 = x.float()
        x_normed = x_fp32 * torch.rsqrt(x_fp32.pow(2).mean(-1, keepdim=True) + self.eps)
        return x_normed.type_as(x) * self.scale


class GatedFeedForward(nn.Module):
    """A gated network in which w1 is the gate and w3 are the features."""

    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


ANSWERS = {
    "PositionalEncoding": EncodingOfSequences,
    "padding_mask": key_padding_mask,
    "causal_mask": mask_of_the_future,
    "EncoderLayer": TransformerEncoderLayer,
    "label_smoothed_cross_entropy": loss_fn,
    "training_step": train_step,
    "AttentionCache": KVCache,
    "RMSNorm": RMSNorm,
    "SwiGLU": GatedFeedForward,
}
