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


class NormByLoops(nn.Module):
    """Normalize one vector after another."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.bias = (nn.Parameter(make(d_model)) for make in (torch.ones, torch.zeros))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Go through all vectors."""
        rows = []
        for row in x.reshape(-1, x.shape[-1]):
            centre = sum(row) / len(row)
            variance = sum((number - centre) ** 2 for number in row) / len(row)
            rows.append((row - centre) / (variance + self.eps) ** 0.5 * self.weight + self.bias)
        return torch.stack(rows).view(x.shape)


class NormByStd(nn.Module):
    """Undo what std() divides by."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Centre with a matrix; square the biased deviation again."""
        d = x.size(-1)
        centred = x @ (torch.eye(d) - torch.ones(d, d) / d)
        std = x.std(dim=-1, keepdim=True, unbiased=False)
        return self.weight * centred / torch.sqrt(std**2 + self.eps) + self.bias


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


class AddNormOnACopy(nn.Module):
    """Add in place, to a copy."""

    def __init__(self, d_model: int, dropout: float = 0.0, norm_first: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(normalized_shape=[d_model])
        self.dropout = nn.Dropout(p=dropout)
        self.norm_first = norm_first

    def forward(self, x: Tensor, sublayer) -> Tensor:
        """Keep x apart."""
        path = x.clone()
        heard = x
        if self.norm_first:
            heard = F.layer_norm(x, (x.size(-1),), self.norm.weight, self.norm.bias)
        path += self.dropout(sublayer(heard))
        return path if self.norm_first else self.norm(path)


ANSWERS = {
    "LayerNorm": (NormByVar, NormByMoments, NormByLoops, NormByStd),
    "AddNorm": (AddNormInTwoLines, AddNormOfOurOwn, AddNormOnACopy),
}
