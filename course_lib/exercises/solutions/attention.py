"""Chapter 01 in other words."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def by_bias(query: Tensor, key: Tensor, value: Tensor, mask=None, dropout_p: float = 0.0):
    """Add 0 or -inf to scaled queries, and mend empty rows with where."""
    logits = (query / math.sqrt(query.size(-1))).matmul(key.mT)
    if mask is not None:
        logits = logits + torch.zeros(mask.shape).masked_fill(mask.logical_not(), -math.inf)
        empty = mask.expand(logits.shape).any(-1, keepdim=True).logical_not()
        weights = logits.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    else:
        weights = F.softmax(logits, dim=-1)
    return torch.dropout(weights, dropout_p, dropout_p > 0).matmul(value), weights


def textbook(query, key, value, mask=None, dropout=None):
    """Hold the core alone, as a tutorial writes it: ``dropout`` is a layer or nothing."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


ANSWERS = {"scaled_dot_product_attention": (by_bias, textbook)}
