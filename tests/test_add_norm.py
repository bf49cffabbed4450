"""LayerNorm agrees with torch, and AddNorm adds, drops and normalizes in the right order."""

import pytest
import torch
from dimensions import B, T
from parity import assert_equal, assert_parity, trace
from random_inputs import normal, randomize
from reference import add_norm_by_hand
from torch import nn

from course_lib.add_norm import AddNorm, LayerNorm
from course_lib.interop import load_from_torch

WIDTH = 6
BOTH_ORDERS = pytest.mark.parametrize("norm_first", [False, True])


def make_sublayer():
    """Return a sub-layer that changes its input and has its own parameters."""
    return randomize(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), seed=5)


@pytest.mark.parametrize("eps", [1e-5, 1e-2])
@pytest.mark.parametrize("shape", [(WIDTH,), (T, WIDTH), (B, T, WIDTH)])
def test_layer_norm_agrees_with_torch(generator, shape, eps):
    ours, theirs = LayerNorm(WIDTH, eps).double(), randomize(nn.LayerNorm(WIDTH, eps))
    load_from_torch(ours, theirs)
    assert_parity(ours, theirs, ours, theirs, [3 + 2 * normal(generator, *shape)])


def test_layer_norm_agrees_with_torch_in_float32_far_from_0(generator):
    x = 1000 + normal(generator, B, T, WIDTH, dtype=torch.float32)
    # 1e-3, because float32 has steps of 6e-5 at 1000, and the standard deviation is 1
    torch.testing.assert_close(LayerNorm(WIDTH)(x), nn.LayerNorm(WIDTH)(x), rtol=0, atol=1e-3)


@BOTH_ORDERS
def test_add_norm_agrees_with_the_formula_and_runs_its_sublayer_once(generator, norm_first):
    add_norm, sublayer = randomize(AddNorm(WIDTH, norm_first=norm_first)), make_sublayer()
    both, x, calls = nn.ModuleList([add_norm, sublayer]), [normal(generator, B, T, WIDTH)], []
    ours = trace(lambda x: add_norm(x, lambda x: calls.append(x) or sublayer(x)), x, both)
    assert_equal(ours, trace(lambda x: add_norm_by_hand(add_norm, x, sublayer), x, both))
    assert len(calls) == 1


def test_a_constant_vector_becomes_the_bias_with_a_finite_gradient():
    norm = randomize(LayerNorm(WIDTH))
    result = trace(norm, [torch.full((1, 1, WIDTH), 7.0, dtype=torch.float64)], norm)
    assert_equal(result["outputs"][0][0, 0], norm.bias.detach())
    assert result["inputs"][0].isfinite().all()


def test_half_precision_keeps_large_numbers():
    norm, x = LayerNorm(4).half(), torch.tensor([300.0, -300, 200, 100]).half()
    expected = torch.tensor([0.988, -1.646, 0.549, 0.110]).half()  # 300² is infinite in float16
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=1e-3)
    assert LayerNorm(4).double()(x.double()).dtype == torch.float64
