"""Right answers of chapter 19, in other styles."""

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.multi_head import split_heads


class AttentionBySums(nn.Module):
    """Cut the product into three, split as chapter 02 does, and write the sums down."""

    def __init__(self, d_model, num_heads, dropout=0.0):
        super().__init__()
        self.w_qkv = nn.Linear(d_model, d_model * 3)
        self.w_o = nn.Linear(d_model, d_model)
        self.num_heads, self.dropout = num_heads, dropout
        self.drop = nn.Dropout(dropout)

    def project(self, x):
        """Cut, and split."""
        q, k, v = self.w_qkv(x).chunk(3, dim=2)
        return [split_heads(part, self.num_heads) for part in (q, k, v)]

    def forward(self, x):
        """Hide what comes later with minus infinity, and put the heads side by side."""
        q, k, v = self.project(x)
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
        later = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        weights = self.drop(scores.masked_fill(later, float("-inf")).softmax(dim=-1))
        heads = torch.einsum("bhts,bhsd->bhtd", weights, v)
        return self.w_o(torch.cat(heads.unbind(dim=1), dim=-1))


class AttentionOfNanoGPT(nn.Module):
    """Hold the core as nanoGPT does: c_attn and c_proj, sizes from a config."""

    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def forward(self, x):
        """Split, attend, join."""
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (y.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for y in (q, k, v))
        p = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


ANSWERS = {"CausalSelfAttention": (AttentionBySums, AttentionOfNanoGPT)}
