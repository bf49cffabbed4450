"""Conversion of weights to and from ``torch.nn`` and published formats."""

from course_lib.interop.torch_nn import copy_to_torch, grad_pairs, load_from_torch

__all__ = ["copy_to_torch", "grad_pairs", "load_from_torch"]
