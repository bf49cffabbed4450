"""Weights and masks, to and from ``torch.nn``; published checkpoints, one module per format."""

from course_lib.interop.torch_nn import (
    copy_to_torch,
    from_lengths,
    grad_pairs,
    load_from_torch,
    to_additive,
    to_attn_mask,
    to_blocked,
    to_lengths,
)

__all__ = [
    "copy_to_torch",
    "from_lengths",
    "grad_pairs",
    "load_from_torch",
    "to_additive",
    "to_attn_mask",
    "to_blocked",
    "to_lengths",
]
