"""Chapter 08 in other words."""

from copy import deepcopy
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm
from course_lib.decoder import DecoderLayer
from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention


class LayerWithNamedSteps(nn.Module):
    """Write every sub-layer as a method, and give AddNorm the method."""

    def __init__(
        self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu", *,
        d_k=None, d_v=None, attention_dropout=0.0, activation_dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        for place in ("self_attn", "cross_attn"):
            part = MultiHeadAttention(
                d_model, num_heads, d_k=d_k, d_v=d_v, dropout=attention_dropout
            )
            self.add_module(place, part)
        for number in (1, 2, 3):
            setattr(self, f"add_norm{number}", AddNorm(d_model, dropout, norm_first))
        self.feed_forward = FeedForward(d_model, d_ff, activation_dropout, activation)

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        """Keep what the steps need, and run them in their order."""

        def back(queries: Tensor) -> Tensor:
            """Look back."""
            answer, _ = self.self_attn(queries, queries, queries, self_mask, need_weights=True)
            return answer

        def across(queries: Tensor) -> Tensor:
            """Look across."""
            answer, _ = self.cross_attn(queries, memory, memory, mask=cross_mask)
            return answer

        steps = (back, across, self.feed_forward)
        add_norms = (self.add_norm1, self.add_norm2, self.add_norm3)
        for add_norm, step in zip(add_norms, steps, strict=True):
            x = add_norm(x, step)
        return x


class LayerWrittenOut(nn.Module):
    """Write both places of the norm out, with the parts inside AddNorm."""

    def __init__(
        self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu", **inner
    ):
        super().__init__()
        features = inner.pop("activation_dropout", 0.0)
        inner["dropout"] = inner.pop("attention_dropout", 0.0)
        self.add_norm1, self.add_norm2, self.add_norm3 = (AddNorm(d_model, dropout) for _ in "123")
        self.feed_forward = FeedForward(d_model, d_ff, features, activation=activation)
        self.cross_attn = MultiHeadAttention(d_model, num_heads, **inner)
        self.self_attn = MultiHeadAttention(d_model, num_heads, **inner)
        self.pre = norm_first

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None):
        """Normalize before or after, by hand."""
        one, two, three = self.add_norm1, self.add_norm2, self.add_norm3
        if self.pre:
            read = one.norm(tgt)
            tgt = tgt + one.dropout(self.self_attn(read, read, read, tgt_mask)[0])
            read = two.norm(tgt)
            tgt = tgt + two.dropout(self.cross_attn(read, memory, memory, memory_mask)[0])
            return tgt + three.dropout(self.feed_forward(three.norm(tgt)))
        back = self.self_attn(tgt, tgt, tgt, tgt_mask)[0]
        tgt = one.norm(tgt + one.dropout(back))
        across = self.cross_attn(tgt, memory, memory, memory_mask)[0]
        tgt = two.norm(tgt + two.dropout(across))
        return three.norm(tgt + three.dropout(self.feed_forward(tgt)))


class LayerOfFunctions(nn.Module):
    """Let the parts hold the numbers only, and do the arithmetic with torch's functions."""

    def __init__(
        self, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, activation="relu", *,
        d_k=None, d_v=None, attention_dropout=0.0, activation_dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        self.self_attn, self.cross_attn = (
            MultiHeadAttention(d_model, num_heads, d_k=d_k, d_v=d_v) for _ in range(2)
        )
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation)
        self.add_norm1 = AddNorm(d_model, norm_first=norm_first)
        self.add_norm2 = AddNorm(d_model, norm_first=norm_first)
        self.add_norm3 = AddNorm(d_model, norm_first=norm_first)
        self.shares = (dropout, attention_dropout, activation_dropout)

    def look(self, part: nn.Module, asking: Tensor, answering: Tensor, mask) -> Tensor:
        """Attend with torch's fused kernel, head by head side by side."""
        heads = (part.num_heads, -1)
        q = part.w_q(asking).unflatten(-1, heads).movedim(-2, 1)
        k = part.w_k(answering).unflatten(-1, heads).movedim(-2, 1)
        v = part.w_v(answering).unflatten(-1, heads).movedim(-2, 1)
        share = self.shares[1] if self.training else 0.0
        said = F.scaled_dot_product_attention(q, k, v, mask, share)
        return part.w_o(said.movedim(1, 2).flatten(-2))

    def think(self, x: Tensor) -> Tensor:
        """Compute feed-forward."""
        inner = self.feed_forward.activation(self.feed_forward.linear1(x))
        return self.feed_forward.linear2(F.dropout(inner, self.shares[2], self.training))

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        """Add and normalize three times."""
        sublayers = {
            self.add_norm1: lambda z: self.look(self.self_attn, z, z, self_mask),
            self.add_norm2: lambda z: self.look(self.cross_attn, z, memory, cross_mask),
            self.add_norm3: self.think,
        }
        for part, sublayer in sublayers.items():
            norm, early = part.norm, part.norm_first
            said = F.dropout(sublayer(norm(x) if early else x), self.shares[0], self.training)
            x = x + said if early else norm(x + said)
        return x


class StackByAppending(nn.Module):
    """Name the arguments, build in a loop, run by index."""

    def __init__(
        self, num_layers, d_model, num_heads, d_ff, dropout=0.0, norm_first=False, **options
    ):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            self.layers.append(
                DecoderLayer(d_model, num_heads, d_ff, dropout, norm_first, **options)
            )
        if norm_first:
            self.norm = nn.LayerNorm(d_model)
        else:
            self.norm = nn.Identity()

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        """Run from 0 to N - 1."""
        for i in range(len(self.layers)):
            x = self.layers[i](x, memory, cross_mask=cross_mask, self_mask=self_mask)
        return self.norm(x)


class StackByReducing(nn.Module):
    """Copy one layer, and fold the stack with reduce."""

    def __init__(self, num_layers: int, d_model: int, *args: Any, **kwargs: Any):
        super().__init__()
        first = DecoderLayer(d_model, *args, **kwargs)
        copies = [first, *(deepcopy(first) for _ in range(num_layers - 1))]
        for copy in copies[1:]:
            copy.apply(lambda m: m.reset_parameters() if isinstance(m, nn.Linear) else None)
        self.layers = nn.Sequential(*copies)
        self.norm = None
        if first.add_norm3.norm_first:
            self.norm = nn.LayerNorm(d_model)

    def forward(self, x, memory, *masks):
        """Hand x from one layer to the next."""
        y = reduce(lambda z, layer: layer(z, memory, *masks), self.layers, x)
        return self.norm(y) if self.norm else y


class StackByRecursion(nn.Module):
    """Let the top layer ask for what the layers below it make."""

    def __init__(self, num_layers: int, d_model: int, *args: Any, **kwargs: Any):
        super().__init__()
        self.layers = nn.ModuleList(
            map(lambda _: DecoderLayer(d_model, *args, **kwargs), range(num_layers))
        )
        pre = all(layer.add_norm2.norm_first for layer in self.layers)
        self.register_module("norm", nn.LayerNorm(d_model) if pre else None)

    def upto(self, depth: int, x: Tensor, *rest: Tensor | None) -> Tensor:
        """Return what the first layers make of x."""
        return x if depth == 0 else self.layers[depth - 1](self.upto(depth - 1, x, *rest), *rest)

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        """Ask the top."""
        top = self.upto(len(self.layers), x, memory, self_mask, cross_mask)
        if self.norm is not None:
            top = torch.layer_norm(top, top.shape[-1:], self.norm.weight, self.norm.bias)
        return top


ANSWERS = {
    "DecoderLayer": (LayerWithNamedSteps, LayerWrittenOut, LayerOfFunctions),
    "Decoder": (StackByAppending, StackByReducing, StackByRecursion),
}
