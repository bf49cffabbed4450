"""Conversion of weights and masks to and from ``torch.nn`` and published formats."""

from course_lib.interop.torch_nn import (
    copy_to_torch,
    grad_pairs,
    load_from_torch,
    to_additive,
    to_attn_mask,
    to_blocked,
)

__all__ = [
    "copy_to_torch",
    "grad_pairs",
    "load_from_torch",
    "to_additive",
    "to_attn_mask",
    "to_blocked",
]
