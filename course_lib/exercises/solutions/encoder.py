"""Chapter 07 in other words."""

import functools
import inspect

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm, LayerNorm
from course_lib.encoder import EncoderLayer
from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention


class LayerOfNamedSteps(nn.Module):
    """Give the attention step a name of its own."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu",
                 *, d_k=None, d_v=None, attention_dropout=0.0, activation_dropout=0.0):  # fmt: skip
        super().__init__()
        self.add_norm2, self.add_norm1 = (AddNorm(d_model, dropout, norm_first) for _ in range(2))
        self.feed_forward = FeedForward(
            d_model, d_ff, dropout=activation_dropout, activation=activation
        )
        self.self_attn = MultiHeadAttention(
            d_model=d_model, num_heads=num_heads, dropout=attention_dropout, d_k=d_k, d_v=d_v
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend with the weights asked for, too."""

        def attend(tokens: Tensor) -> Tensor:
            """Return the first of attention's two answers."""
            output, _ = self.self_attn(tokens, tokens, tokens, mask=mask, need_weights=True)
            return output

        return self.add_norm2(self.add_norm1(x, attend), self.feed_forward)


class LayerOfBranches(nn.Module):
    """Write sums, norms and dropout out, once for each order."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu",
                 *, attention_dropout=0.0, activation_dropout=0.0, **widths):  # fmt: skip
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout=attention_dropout, **widths)
        self.feed_forward = FeedForward(d_model, d_ff, activation_dropout, activation)
        self.add_norm1, self.add_norm2 = nn.Module(), nn.Module()
        self.add_norm1.norm, self.add_norm2.norm = LayerNorm(d_model), nn.LayerNorm(d_model)
        self.p, self.pre = dropout, norm_first
        self.add_norm1.norm_first = norm_first

    def forward(self, x, mask=None):
        """Follow figure 1."""
        norm1, norm2 = self.add_norm1.norm, self.add_norm2.norm
        if self.pre:
            z = norm1(x)
            x = x + self.drop(self.self_attn(z, z, z, mask)[0])
            return x + self.drop(self.feed_forward(norm2(x)))
        x = norm1(x + self.drop(self.self_attn(x, x, x, mask)[0]))
        return norm2(x + self.drop(self.feed_forward(x)))

    def drop(self, x: Tensor) -> Tensor:
        """Drop while training."""
        return F.dropout(x, self.p, self.training)


class Heads(nn.Module):
    """Attend by torch's fused kernel."""

    def __init__(self, d_model: int, num_heads: int, d_k: int, d_v: int, p: float):
        super().__init__()
        self.w_q, self.w_k = (nn.Linear(d_model, num_heads * d_k) for _ in range(2))
        self.w_v, self.w_o = (
            nn.Linear(d_model, num_heads * d_v),
            nn.Linear(num_heads * d_v, d_model),
        )
        self.num_heads, self.p = num_heads, p

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Split, attend, join."""
        parts = (w(x).unflatten(-1, (self.num_heads, -1)) for w in (self.w_q, self.w_k, self.w_v))
        q, k, v = (part.transpose(1, 2) for part in parts)
        p = self.p if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=p)
        return self.w_o(heads.transpose(1, 2).flatten(2))


class LayerOfOwnParts(nn.Module):
    """Use nothing from earlier chapters."""

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu",
                 *, d_k=None, d_v=None, attention_dropout=0.0, activation_dropout=0.0):  # fmt: skip
        super().__init__()
        width = d_model // num_heads
        self.self_attn = Heads(d_model, num_heads, d_k or width, d_v or width, attention_dropout)
        self.feed_forward = nn.ModuleDict(
            {"linear1": nn.Linear(d_model, d_ff), "linear2": nn.Linear(d_ff, d_model)}
        )
        self.add_norm1 = nn.ModuleDict({"norm": nn.LayerNorm(d_model)})
        self.add_norm2 = nn.ModuleDict({"norm": nn.LayerNorm(d_model)})
        self.inside, self.outside = nn.Dropout(activation_dropout), nn.Dropout(dropout)
        self.norm_first, self.bend = norm_first, getattr(F, activation)

    def think(self, x: Tensor) -> Tensor:
        """Go up, bend, come back."""
        lifted = self.inside(self.bend(self.feed_forward["linear1"](x)))
        return self.feed_forward["linear2"](lifted)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Run both sub-layers in a loop."""
        steps = ((self.add_norm1, lambda z: self.self_attn(z, mask)), (self.add_norm2, self.think))
        for part, step in steps:
            norm = part["norm"]
            x = x + self.outside(step(norm(x) if self.norm_first else x))
            x = x if self.norm_first else norm(x)
        return x


class StackByCounting(nn.Module):
    """Build the list piece by piece; end in a module that does nothing."""

    def __init__(self, num_layers, d_model, *args, **kwargs):
        super().__init__()
        make = functools.partial(EncoderLayer, d_model, *args, **kwargs)
        self.layers = nn.ModuleList([make()])
        self.layers.extend(make() for _ in range(1, num_layers))
        pre = self.layers[-1].add_norm2.norm_first
        self.norm = nn.LayerNorm(d_model) if pre else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Count through the layers."""
        for i in range(len(self.layers)):
            x = self.layers[i](x, mask=mask)
        return self.norm(x)


class StackByAppending(nn.Module):
    """Bind the arguments to the layer's signature to learn whether it is pre-norm."""

    def __init__(self, num_layers: int, d_model: int, *args, **kwargs):
        super().__init__()
        bound = inspect.signature(EncoderLayer).bind(d_model, *args, **kwargs)
        bound.apply_defaults()
        self.layers = nn.ModuleList()
        while len(self.layers) < num_layers:
            self.layers.append(EncoderLayer(*bound.args, **bound.kwargs))
        self.register_module("norm", None)
        if bound.arguments["norm_first"]:
            self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        """Fold the layers into one call."""
        x = functools.reduce(lambda x, layer: layer(x, mask), self.layers, x)
        return x if self.norm is None else self.norm(x)


class StackByFormula(nn.Module):
    """Take the layers one by one, and normalize by a formula at the end."""

    def __init__(self, num_layers, d_model, *args, **kwargs):
        super().__init__()
        layers = (EncoderLayer(d_model, *args, **kwargs) for _ in range(num_layers))
        self.layers = nn.Sequential(*layers)
        if self.layers[0].add_norm1.norm_first:
            self.norm = nn.Module()
            self.norm.weight = nn.Parameter(torch.ones(d_model))
            self.norm.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x, mask=None):
        """Call one child after another."""
        for layer in self.layers.children():
            x = layer(x, mask)
        if not hasattr(self, "norm"):
            return x
        spread, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(spread + 1e-5) * self.norm.weight + self.norm.bias


ANSWERS = {
    "EncoderLayer": (LayerOfNamedSteps, LayerOfBranches, LayerOfOwnParts),
    "Encoder": (StackByCounting, StackByAppending, StackByFormula),
}
