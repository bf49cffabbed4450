"""Chapter 04 in other words."""

import torch
from torch import Tensor, nn


class NormByVar(nn.Module):
    """Let torch compute the variance, and tell it by what to divide."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Take both statistics at once."""
        var, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
        return torch.addcmul(self.bias, (x - mean) * torch.rsqrt(var + self.eps), self.weight)


class NormWithA2AndB2(nn.Module):
    """Take the Annotated Transformer's names, and a deviation divided by d_model."""

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        """Add eps to the deviation."""
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True, unbiased=False)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class NormWithGammaAndBeta(nn.Module):
    """Take the names of the formula, and no eps as an argument."""

    def __init__(self, hidden_size):
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(hidden_size))
        self.gamma = nn.Parameter(torch.ones(hidden_size))

    def forward(self, x):
        """Centre with a matrix."""
        d = x.size(-1)
        centred = x @ (torch.eye(d) - torch.ones(d, d) / d)
        return self.gamma * centred / (centred.pow(2).mean(-1, True) + 1e-5).sqrt() + self.beta


class AddNormInTwoLines(nn.Module):
    """Write each order as one line."""

    def __init__(self, d_model, dropout=0.0, norm_first=False):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)
        self.pre = norm_first

    def forward(self, x, sublayer):
        """Choose the line."""
        if self.pre:
            return x + self.drop(sublayer(self.norm(x)))
        return self.norm(x + self.drop(sublayer(x)))


class SublayerConnection(nn.Module):
    """Take the Annotated Transformer's arguments, in the paper's order: the norm comes last."""

    def __init__(self, size, dropout):
        super().__init__()
        self.layer_norm = NormWithA2AndB2(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        """Add in place, to a copy."""
        residual = x.clone()
        residual += self.dropout(sublayer(x))
        return self.layer_norm(residual)


ANSWERS = {
    "LayerNorm": (NormByVar, NormWithA2AndB2, NormWithGammaAndBeta),
    "AddNorm": (AddNormInTwoLines, SublayerConnection),
}
