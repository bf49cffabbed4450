"""Chapter 03 in other words."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.positions import sinusoidal_encoding


def encoding_in_slices(max_len: int, d_model: int) -> Tensor:
    """Fill the even columns, then the odd ones, as the Annotated Transformer does."""
    pe = torch.zeros(max_len, d_model)
    position = torch.arange(max_len).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term[: d_model // 2])
    return pe


def encoding_by_shifted_sines(max_len, d_model):
    """A cosine is a sine, a quarter of a turn ahead."""
    column = torch.arange(d_model)
    frequency = torch.pow(10000.0, -(column - column % 2) / d_model)
    return torch.sin(
        torch.outer(torch.arange(max_len).float(), frequency) + column % 2 * math.pi / 2
    )


def encoding_by_rotation(max_len: int, d_model: int) -> Tensor:
    """Turn complex numbers step by step."""
    pairs = (d_model + 1) // 2
    angles = torch.tensor([1 / 10000 ** (2 * i / d_model) for i in range(pairs)])
    step, now, rows = torch.polar(torch.ones(pairs), angles), torch.ones(pairs) + 0j, []
    for _ in range(max_len):
        rows.append(torch.view_as_real(now).flip(-1).reshape(-1)[:d_model])
        now = now * step
    return torch.stack(rows)


def encoding_by_loops(max_len: int, d_model: int) -> Tensor:
    """Write down one number after another."""
    return torch.tensor(
        [
            [
                (math.cos if c % 2 else math.sin)(p / 10000 ** (2 * (c // 2) / d_model))
                for c in range(d_model)
            ]
            for p in range(max_len)
        ]
    )


class EncodingWithBatchAxis(nn.Module):
    """Keep a table with an axis for the batch, and switch dropout by hand."""

    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.p = dropout
        table = encoding_in_slices(max_len, d_model)
        self.register_buffer("encoding", table[None], persistent=False)

    def forward(self, x):
        """Add the first rows."""
        placed = x + self.encoding[:, : x.shape[1], :].requires_grad_(False)
        return F.dropout(placed, self.p, training=self.training)


class EncodingByLookup(nn.Module):
    """Look every place up."""

    def __init__(self, d_model: int, max_len: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.drop = nn.Dropout(p=dropout)
        self.register_buffer("encoding", sinusoidal_encoding(max_len, d_model), False)

    def forward(self, words: Tensor) -> Tensor:
        """Add one row after another."""
        places = torch.arange(words.size(1), device=words.device)
        return self.drop(F.embedding(places, self.encoding).expand_as(words).add(words))


class EncodingWordByWord(nn.Module):
    """Keep the table apart from the arithmetic, and give back a view."""

    def __init__(self, d_model: int, max_len: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoding = nn.Buffer(sinusoidal_encoding(max_len, d_model), persistent=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Place the first words of all sentences, then the second ones, …."""
        sums = [x[:, t] + self.encoding[t] for t in range(x.shape[1])]
        return self.dropout(torch.stack(sums)).transpose(0, 1)


class LearnedByEmbedding(nn.Embedding):
    """Be torch's embedding, asked for the places 0, 1, 2, …."""

    def __init__(self, d_model: int, max_len: int, dropout: float = 0.0) -> None:
        super().__init__(max_len, d_model)
        nn.init.trunc_normal_(self.weight, std=0.02)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Look the places up, and add them."""
        return self.dropout(x + super().forward(torch.arange(x.size(1), device=x.device)))


class LearnedBySlice(nn.Module):
    """Draw small rows at once."""

    def __init__(self, d_model, max_len, dropout=0.0):
        super().__init__()
        self.weight = nn.Parameter(0.01 * torch.randn(max_len, d_model))
        self.rate = dropout

    def forward(self, x):
        """Add the first rows, and drop."""
        out = torch.add(self.weight.narrow(0, 0, x.shape[-2]), x)
        return F.dropout(out, self.rate, self.training)


class LearnedByOneHot(nn.Module):
    """Pick rows by a product with an identity."""

    def __init__(self, d_model: int, max_len: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model).uniform_(-0.05, 0.05))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Add an identity times the rows."""
        places = torch.eye(x.size(1), self.weight.size(0))
        return self.dropout(torch.einsum("lp,pd->ld", places, self.weight) + x)


ANSWERS = {
    "sinusoidal_encoding": (
        encoding_in_slices,
        encoding_by_shifted_sines,
        encoding_by_rotation,
        encoding_by_loops,
    ),
    "PositionalEncoding": (EncodingWithBatchAxis, EncodingByLookup, EncodingWordByWord),
    "LearnedPositionalEmbedding": (LearnedByEmbedding, LearnedBySlice, LearnedByOneHot),
}
