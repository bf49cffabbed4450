"""Right answers of chapter 19: attention that turns, and attention that shares."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.gpt import CausalSelfAttention
from course_lib.modern_decoder import apply_rope
from course_lib.multi_head import head_width, split_heads


class RotaryOfStacked(CausalSelfAttention):
    """Turn queries and keys in one call."""

    def project(self, x):
        """Stack, turn, and unstack."""
        *both, values = super().project(x)
        queries, keys = apply_rope(torch.stack(both)).unbind()
        return [queries, keys, values]


class RotaryBySums(nn.Module):
    """Write everything out, heads chapter 02's way."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads of {d_model}")
        self.w_qkv, self.w_o = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.num_heads, self.drop = num_heads, nn.Dropout(dropout)

    def project(self, x):
        """Cut into three, split, and turn two of them."""
        parts = [split_heads(part, self.num_heads) for part in self.w_qkv(x).chunk(3, dim=-1)]
        return tuple(apply_rope(part) if n < 2 else part for n, part in enumerate(parts))

    def merge(self, heads):
        """Put heads side by side."""
        return self.w_o(torch.cat(heads.unbind(dim=1), dim=-1))

    def forward(self, x):
        """Hide what comes later with minus infinity."""
        q, k, v = self.project(x)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        later = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        return self.merge(self.drop(scores.masked_fill(later, -math.inf).softmax(dim=-1)) @ v)


class GroupsByExpanding(CausalSelfAttention):
    """Give each set an axis of its readers."""

    def __init__(self, d_model, num_heads, num_groups, dropout=0.0):
        super().__init__(d_model, num_heads, dropout)
        if num_groups <= 0 or num_heads % num_groups != 0:
            raise ValueError(f"{num_groups} sets for {num_heads} heads")
        self.num_groups = num_groups
        self.d_k = d_model // num_heads
        self.w_qkv = nn.Linear(d_model, d_model + 2 * num_groups * self.d_k)

    def project(self, x):
        """Cut first, split then."""
        B, T, d_model = x.shape
        narrow = self.num_groups * self.d_k
        q, k, v = self.w_qkv(x).split([d_model, narrow, narrow], dim=-1)
        shape = (B, self.num_groups, self.num_heads // self.num_groups, T, self.d_k)
        k, v = (
            part.view(B, T, self.num_groups, self.d_k).transpose(1, 2).unsqueeze(2).expand(shape)
            for part in (k, v)
        )
        return split_heads(q, self.num_heads), k.reshape(B, -1, T, self.d_k), v.flatten(1, 2)


class GroupsByPicking(nn.Module):
    """Let each head pick its set by a number."""

    def __init__(self, d_model: int, num_heads: int, num_groups: int, dropout: float = 0.0) -> None:
        super().__init__()
        width = head_width(d_model, num_heads)
        if num_groups not in range(1, num_heads + 1) or num_heads % num_groups:
            raise ValueError(f"{num_groups=} does not suit {num_heads=}")
        self.w_qkv = nn.Linear(d_model, width * (num_heads + num_groups + num_groups))
        self.w_o = nn.Linear(d_model, d_model)
        self.num_heads, self.num_groups, self.dropout = num_heads, num_groups, dropout

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pick from all heads' worth of columns."""
        H, G = self.num_heads, self.num_groups
        every = split_heads(self.w_qkv(x), H + 2 * G)
        mine = torch.arange(H) // (H // G)
        return every[:, :H], every[:, H + mine], every[:, H + G + mine]

    def merge(self, heads: Tensor) -> Tensor:
        """Put heads side by side, and mix them."""
        return self.w_o(heads.movedim(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        """Ask with a mask, by torch's kernel."""
        past = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
        p = self.dropout if self.training else 0.0
        return self.merge(F.scaled_dot_product_attention(*self.project(x), past, p))


ANSWERS = {
    "RotaryAttention": (RotaryOfStacked, RotaryBySums),
    "GroupedQueryAttention": (GroupsByExpanding, GroupsByPicking),
}
