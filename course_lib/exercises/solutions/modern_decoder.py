"""Right answers of chapter 21, in other styles."""

import torch
from torch import nn
from torch.nn import functional as F


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


class NormOfLlama(nn.Module):
    """Split the work as Llama's code does; the argument is called ``dim``."""

    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        """Scale to mean square 1."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        """Compute in float32."""
        return self._norm(x.float()).type_as(x) * self.weight


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


class GateOfLlama(nn.Module):
    """Name the three layers as Llama's code does: w1 is the gate, w3 the features."""

    def __init__(self, dim: int, hidden_dim: int):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)

    def forward(self, x):
        """Gate the features, and project down."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


ANSWERS = {"RMSNorm": (NormByLength, NormOfLlama), "SwiGLU": (GateBySigmoid, GateOfLlama)}
