"""Right answers of chapter 19, in other styles; attention stands apart."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.solutions.modern_attention import ANSWERS as ATTENTION
from course_lib.positions import sinusoidal_encoding


class NormByLength(nn.Module):
    """Measure the length, and compare it with that of d_model ones."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.full((d_model,), 1.0)))
        self.eps = eps

    def forward(self, x):
        """Divide by the root."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / torch.sqrt(length**2 / x.shape[-1] + self.eps) * self.weight


class NormByProduct(nn.Module):
    """Take the product of a vector with itself."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Scale."""
        square = torch.einsum("...d,...d->...", x, x) / self.d_model
        root = (square + self.eps).pow(-0.5)
        return torch.einsum("...d,...,d->...d", x, root, self.weight)


class GateBySigmoid(nn.Module):
    """Write SiLU out."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear2 = nn.Linear(d_ff, d_model, bias=False)
        self.gate, self.linear1 = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))

    def forward(self, x):
        """Let features pass."""
        z = self.gate(x)
        features = self.linear1(x)
        features = features * (z * torch.sigmoid(z))
        return self.linear2(features)


class GateOfOneProduct(nn.Module):
    """Lift once with both matrices, and cut in two."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        lift = dict(in_features=d_model, out_features=d_ff, bias=False)
        self.linear1, self.gate = nn.Linear(**lift), nn.Linear(**lift)
        self.linear2, self.silu = nn.Linear(d_ff, d_model, bias=False), nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        """Multiply the halves."""
        both = torch.cat([self.linear1.weight, self.gate.weight])
        features, gate = F.linear(x, both).chunk(2, dim=-1)
        return self.linear2(torch.mul(features, self.silu(gate)))


def rotate_by_complex_numbers(x, start=0):
    """Let a pair be a complex number: to multiply by one of length 1 is to turn."""
    *_, T, d_k = x.shape
    if d_k % 2 == 1:
        raise ValueError(f"the width {d_k} is odd")
    place = torch.arange(start, start + T, dtype=torch.float64)
    angle = torch.outer(place, 10000.0 ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k))
    unit = torch.polar(torch.ones_like(angle), angle)  # (T, d_k / 2)
    pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * unit).flatten(-2).to(x.dtype)


def rotate_by_small_matrices(x: Tensor, start: int = 0) -> Tensor:
    """Go through rows and pairs, with a matrix for each."""
    T, d_k = x.size(-2), x.size(-1)
    if d_k != 2 * (d_k // 2):
        raise ValueError("no partner for the last column")
    rows = []
    for t in range(T):
        row = []
        for i in range(0, d_k, 2):
            angle = (start + t) / 10000 ** (i / d_k)
            c, s = math.cos(angle), math.sin(angle)
            row.append(x[..., t, i : i + 2] @ torch.tensor([[c, s], [-s, c]], dtype=x.dtype))
        rows.append(torch.cat(row, dim=-1))
    return torch.stack(rows, dim=-2)


def rotate_by_neighbours(query: Tensor, start: int = 0) -> Tensor:
    """Add to the cosine's share of each column the sine's of its neighbour."""
    length, width = query.shape[-2:]
    if width % 2:
        raise ValueError(width)
    table = sinusoidal_encoding(start + length, width)[-length:].to(query.dtype)
    sine, cosine = table.unflatten(-1, (-1, 2)).repeat_interleave(2, dim=-2).unbind(-1)
    neighbour = query.unflatten(-1, (-1, 2)).flip(-1) * torch.tensor([-1, 1]).to(query)
    return query * cosine + neighbour.flatten(-2) * sine


ANSWERS = ATTENTION | {
    "RMSNorm": (NormByLength, NormByProduct),
    "SwiGLU": (GateBySigmoid, GateOfOneProduct),
    "apply_rope": (rotate_by_complex_numbers, rotate_by_small_matrices, rotate_by_neighbours),
}
