"""Chapter 05 in other words."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ByFunctions(nn.Module):
    """Call torch's functions."""

    def __init__(self, d_model, d_ff, dropout=0.0, activation="relu"):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout, self.activation = nn.Dropout(dropout), getattr(F, activation)

    def forward(self, x: Tensor) -> Tensor:
        """Say it in one line."""
        return self.linear2(
            F.dropout(self.activation(self.linear1(x)), self.dropout.p, self.training)
        )


class ByHand(nn.Module):
    """Hold the four parameters themselves, and write the sums out."""

    def __init__(self, d_model, d_ff, dropout=0.0, activation="relu"):
        super().__init__()
        self.linear1 = self.layer(d_model, d_ff)
        self.linear2 = self.layer(d_ff, d_model)
        self.dropout, self.curved = nn.Dropout(dropout), activation == "gelu"

    @staticmethod
    def layer(width_in: int, width_out: int) -> nn.ParameterDict:
        """Make a matrix and a bias."""
        bound = width_in**-0.5
        return nn.ParameterDict(
            {
                "weight": nn.Parameter(torch.empty(width_out, width_in).uniform_(-bound, bound)),
                "bias": nn.Parameter(torch.empty(width_out).uniform_(-bound, bound)),
            }
        )

    def activation(self, x: Tensor) -> Tensor:
        """Bend by a formula."""
        return x * (1 + torch.erf(x / 2**0.5)) / 2 if self.curved else x.clamp(min=0)

    def forward(self, x: Tensor) -> Tensor:
        """Multiply, bend, drop, multiply."""
        p = self.dropout.p if self.training else 0.0
        hidden = torch.einsum("...d,fd->...f", x, self.linear1["weight"]) + self.linear1["bias"]
        hidden = self.activation(hidden)
        if p > 0:
            hidden = hidden * (torch.rand_like(hidden) >= p) / (1 - p)
        return hidden @ self.linear2["weight"].T + self.linear2["bias"]


class ByPositions(nn.Module):
    """Transform one vector after another, with an activation that works in place."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, activation: str = "relu"):
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.activation = nn.ReLU(inplace=True) if activation == "relu" else nn.GELU()
        self.dropout = nn.Dropout(dropout, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Put the answers together again."""
        vectors = x.reshape(-1, x.shape[-1])
        answers = [self.linear2(self.dropout(self.activation(self.linear1(v)))) for v in vectors]
        return torch.stack(answers).view(x.shape)


ANSWERS = {"FeedForward": (ByFunctions, ByHand, ByPositions)}
