"""Chapter 04 in other words."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import LayerNorm


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


class NormByMoments(nn.Module):
    """Take the variance as the mean of squares less the square of the mean."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.full((d_model,), 1.0)))
        self.register_parameter("bias", nn.Parameter(torch.full((d_model,), 0.0)))
        self.d, self.epsilon = d_model, eps

    def forward(self, vectors):
        """Write both moments as Einstein sums."""
        mu = torch.einsum("...d->...", vectors) / self.d
        moment = torch.einsum("...d,...d->...", vectors, vectors) / self.d
        spread = torch.sqrt((moment - mu * mu).clamp(min=0) + self.epsilon)
        normed = (vectors - mu.unsqueeze(-1)) / spread[..., None]
        return torch.einsum("...d,d->...d", normed, self.weight) + self.bias


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


class AddNormOfOurOwn(nn.Module):
    """Use the norm of the exercise before, and dropout as a function."""

    def __init__(self, d_model: int, dropout: float = 0.0, norm_first: bool = False) -> None:
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.rate, self.norm_first = dropout, norm_first

    def forward(self, x: Tensor, sublayer) -> Tensor:
        """Norm before or after."""
        before, after = (
            (self.norm, nn.Identity()) if self.norm_first else (nn.Identity(), self.norm)
        )
        residual = x
        x = sublayer(before(x))
        x = F.dropout(x, p=self.rate, training=self.training)
        return after(torch.add(residual, x))


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
    "LayerNorm": (NormByVar, NormByMoments, NormWithA2AndB2, NormWithGammaAndBeta),
    "AddNorm": (AddNormInTwoLines, AddNormOfOurOwn, SublayerConnection),
}
