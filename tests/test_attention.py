"""scaled_dot_product_attention agrees with torch and with loops."""

import pytest
import torch
from dimensions import D_K, D_V, MASK_KINDS, B, H, S, T
from hypothesis import given
from hypothesis import strategies as st
from parity import assert_equal, trace
from random_inputs import make_generator, make_mask, normal
from reference import attention_by_loops
from torch.nn import functional as F

from course_lib.attention import scaled_dot_product_attention


def random_inputs(generator, dtype=torch.float64):
    """Draw the query, key and value of all heads."""
    shapes = [(B, H, T, D_K), (B, H, S, D_K), (B, H, S, D_V)]
    return [normal(generator, *shape, dtype=dtype) for shape in shapes]


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_agrees_with_torch(generator, kind):
    inputs, mask = random_inputs(generator), make_mask(kind)
    ours = trace(lambda q, k, v: scaled_dot_product_attention(q, k, v, mask)[0], inputs)
    theirs = trace(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), inputs)
    assert_equal(ours, theirs)


def test_leading_dimensions_broadcast_as_in_torch(generator):
    query, key = normal(generator, H, T, D_K), normal(generator, S, D_K)
    value = normal(generator, B, 1, S, D_V)
    output, weights = scaled_dot_product_attention(query, key, value)
    expected = F.scaled_dot_product_attention(
        query.expand(B, H, T, D_K), key.expand(B, H, S, D_K), value.expand(B, H, S, D_V)
    )
    assert_equal(output, expected)
    assert weights.shape == (H, T, S)


@given(
    seed=st.integers(0, 2**31),
    sizes=st.tuples(*[st.integers(1, 5)] * 4),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_weights_are_distributions_over_the_visible_keys(seed, sizes, scale, dtype):
    generator, (target_len, source_len, d_k, d_v) = make_generator(seed), sizes
    query = scale * normal(generator, B, target_len, d_k, dtype=dtype)
    key = normal(generator, B, source_len, d_k, dtype=dtype)
    value = normal(generator, B, source_len, d_v, dtype=dtype)
    mask = torch.rand(B, target_len, source_len, generator=generator) < 0.6
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    assert (weights >= 0).all()
    assert (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), mask.any(dim=-1).to(dtype))
    lowest = value.amin(dim=-2, keepdim=True).clamp(max=0)  # 0 is the output of a blocked row
    highest = value.amax(dim=-2, keepdim=True).clamp(min=0)
    assert (output >= lowest - 1e-5).all() and (output <= highest + 1e-5).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["none", "both", "blocked row"])
def test_half_precision_hides_the_same_keys(generator, kind, dtype):
    inputs, mask = random_inputs(generator, dtype), make_mask(kind)
    output, weights = scaled_dot_product_attention(*inputs, mask)
    exact_output, exact_weights = attention_by_loops(*(x.double() for x in inputs), mask)
    # 0.05, because bfloat16 has 8 bits, so a score of 4 is accurate to 0.03
    torch.testing.assert_close(output.double(), exact_output, rtol=0, atol=0.05)
    torch.testing.assert_close(weights.double(), exact_weights, rtol=0, atol=0.05)
    assert torch.equal(weights == 0, exact_weights == 0)


def test_half_precision_survives_scores_that_only_fit_when_scaled():
    x = torch.full((2, 64), 40.0).half()  # q · k is 102,400, more than float16 can hold
    output, weights = scaled_dot_product_attention(x, x, x)
    assert (weights == 0.5).all() and (output == 40).all()
