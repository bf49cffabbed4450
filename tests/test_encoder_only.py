"""encoder_only: it agrees with torch, gradients included, and explains bad input."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib.encoder_only import encoder_only_example


def test_it_agrees_with_torch_gradients_included():
    ours = torch.randn(2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theirs = ours.clone().requires_grad_()
    ours.requires_grad_()
    assert_close(encoder_only_example(ours), F.normalize(theirs, dim=-1))
    encoder_only_example(ours).square().sum(-1).prod().backward()
    F.normalize(theirs, dim=-1).square().sum(-1).prod().backward()
    assert_close(ours.grad, theirs.grad)


def test_a_zero_vector_is_explained():
    with pytest.raises(ValueError, match="zero vector"):
        encoder_only_example(torch.zeros(1, 2))
