"""Chapter 02 in other words."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def split_by_reshape(x: Tensor, h: int) -> Tensor:
    """Reshape, then permute; the result is a copy."""
    *leading, length, width = x.shape
    axes = tuple(range(len(leading)))
    cut = x.reshape(*leading, length, h, width // h)
    return cut.permute(*axes, -2, -3, -1).contiguous()


def split_by_chunks(x: Tensor, num_heads: int) -> Tensor:
    """Cut into blocks of columns and stack them in front of the tokens."""
    return torch.stack(x.chunk(num_heads, dim=-1), dim=-3)


class ByEinsum(nn.Module):
    """Write everything as Einstein sums, dropout as a layer's function."""

    def __init__(self, d_model, num_heads, *, d_k=None, d_v=None, dropout=0.0, bias=True):
        super().__init__()
        self.h, self.p = num_heads, dropout
        d_k, d_v = d_k or d_model // num_heads, d_v or d_model // num_heads
        self.w_o = nn.Linear(num_heads * d_v, d_model, bias)
        self.w_q = nn.Linear(d_model, num_heads * d_k, bias)
        self.w_k = nn.Linear(d_model, num_heads * d_k, bias)
        self.w_v = nn.Linear(d_model, num_heads * d_v, bias)

    def forward(self, query, key, value, mask=None, *, need_weights=False):
        """Attend with the heads as one axis of a sum."""
        q, k, v = (
            layer(x).unflatten(-1, (self.h, -1))
            for layer, x in ((self.w_q, query), (self.w_k, key), (self.w_v, value))
        )
        scores = torch.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), float("-inf"))
        weights = torch.nan_to_num(scores.softmax(-1))
        kept = F.dropout(weights, self.p, self.training)
        output = self.w_o(torch.einsum("bhts,bshd->bthd", kept, v).flatten(2))
        return (output, weights) if need_weights else (output, None)


class Annotated(nn.Module):
    """Hold the core alone, in the shape of a well-known tutorial: four clones in a list."""

    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        assert d_model % h == 0
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        """Return the weights, too, though nobody asks for them."""
        batch = query.size(0)
        q, k, v = (
            linear(x).view(batch, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = self.dropout(scores.softmax(dim=-1))
        x = (weights @ v).transpose(1, 2).contiguous().view(batch, -1, self.h * self.d_k)
        return self.linears[-1](x), weights


class WithHiddens(nn.Module):
    """Hold the core alone under a textbook's names; the batch and the heads share an axis."""

    def __init__(self, num_hiddens, num_heads, dropout, bias=False):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.W_q = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_k = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_v = nn.Linear(num_hiddens, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)

    def _heads(self, x):
        """Move the heads into the batch."""
        x = x.reshape(*x.shape[:2], self.num_heads, -1).permute(0, 2, 1, 3)
        return x.reshape(-1, *x.shape[2:])

    def forward(self, queries, keys, values, mask=None):
        """Attend once for all heads of all sentences."""
        batch, length = queries.shape[:2]
        q, k, v = self._heads(self.W_q(queries)), self._heads(self.W_k(keys)), self.W_v(values)
        scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
        if mask is not None:
            whole = mask.expand(batch, self.num_heads, length, keys.size(1))
            scores = scores.masked_fill(~whole.reshape(scores.shape), -torch.inf)
        out = torch.bmm(F.softmax(scores, dim=-1), self._heads(v))
        out = out.reshape(batch, self.num_heads, length, -1).permute(0, 2, 1, 3)
        return self.W_o(out.reshape(batch, length, -1)), None


ANSWERS = {
    "split_heads": (split_by_reshape, split_by_chunks),
    "MultiHeadAttention": (ByEinsum, Annotated, WithHiddens),
}
