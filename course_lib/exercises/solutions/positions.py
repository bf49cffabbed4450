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
    pe[:, 1::2] = torch.cos(position * div_term)
    return pe


def encoding_by_shifted_sines(max_len, d_model):
    """A cosine is a sine, a quarter of a turn ahead."""
    column = torch.arange(d_model)
    frequency = torch.pow(10000.0, -(column - column % 2) / d_model)
    return torch.sin(
        torch.outer(torch.arange(max_len).float(), frequency) + column % 2 * math.pi / 2
    )


class EncodingByLookup(nn.Module):
    """Look every place up."""

    def __init__(self, d_model: int, max_len: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.drop = nn.Dropout(p=dropout)
        self.register_buffer("encoding", sinusoidal_encoding(max_len, d_model), False)

    def forward(self, words: Tensor, start: int = 0) -> Tensor:
        """Add one row after another."""
        places = torch.arange(start, start + words.size(1), device=words.device)
        return self.drop(F.embedding(places, self.encoding).expand_as(words).add(words))


class EncodingWithBatchAxis(nn.Module):
    """Take the Annotated Transformer's arguments, in its order; the table is saved."""

    def __init__(self, d_model, dropout, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        self.register_buffer("pe", encoding_in_slices(max_len, d_model).unsqueeze(0))

    def forward(self, x):
        """Add the first rows."""
        return self.dropout(x + self.pe[:, : x.size(1)].requires_grad_(False))


class EncodingOfD2l(nn.Module):
    """Keep the table as a plain attribute, and move it in ``forward``."""

    def __init__(self, num_hiddens, dropout, max_len=1000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.P = encoding_in_slices(max_len, num_hiddens)[None]

    def forward(self, X):
        """Add the first rows."""
        return self.dropout(X + self.P[:, : X.shape[1], :].to(X.device))


ANSWERS = {
    "sinusoidal_encoding": (encoding_by_shifted_sines, encoding_in_slices),
    "PositionalEncoding": (EncodingByLookup, EncodingWithBatchAxis, EncodingOfD2l),
}
