"""MultiHeadAttention agrees with torch and with a loop over heads, on both code paths."""

import pytest
import torch
from dimensions import D_K, D_MODEL, D_V, MASK_KINDS, TORCH_MASK_KINDS, B, H, S, T
from parity import assert_equal, assert_parity, trace
from random_inputs import make_mask, normal, randomize, seeded, torch_attn_mask
from reference import multi_head_by_loops
from torch import nn

from course_lib.interop import load_from_torch
from course_lib.multi_head import MultiHeadAttention, split_heads

BOTH_PATHS = pytest.mark.parametrize("need_weights", [True, False])


def random_inputs(generator, d_model=D_MODEL, dtype=torch.float64):
    """Draw the query, key and value before their projections."""
    shapes = [(B, T, d_model), (B, S, d_model), (B, S, d_model)]
    return [normal(generator, *shape, dtype=dtype) for shape in shapes]


def free_layer(**changes):
    """Build a layer whose widths all differ, and in which 3 heads do not divide d_model 10."""
    return randomize(MultiHeadAttention(10, H, d_k=D_K, d_v=D_V, **changes))


@BOTH_PATHS
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("num_heads", "kind"), [*((H, kind) for kind in TORCH_MASK_KINDS), (1, "none"), (6, "none")]
)
def test_agrees_with_torch(generator, num_heads, kind, bias, need_weights):
    theirs = randomize(nn.MultiheadAttention(D_MODEL, num_heads, bias=bias, batch_first=True))
    ours = MultiHeadAttention(D_MODEL, num_heads, bias=bias).double()
    load_from_torch(ours, theirs)
    mask = make_mask(kind)
    blocked = torch_attn_mask(mask, T, S)
    how = dict(need_weights=need_weights, average_attn_weights=False)
    assert_parity(
        ours,
        theirs,
        lambda q, k, v: ours(q, k, v, mask, need_weights=need_weights),
        lambda q, k, v: theirs(q, k, v, attn_mask=blocked, **how),
        random_inputs(generator),
    )


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_both_paths_agree_with_loops_when_all_widths_are_free(generator, kind):
    layer, mask = free_layer(), make_mask(kind)
    inputs = random_inputs(generator, 10)
    plain = trace(lambda *qkv: layer(*qkv, mask, need_weights=True), inputs, layer)
    by_loops = trace(lambda *qkv: multi_head_by_loops(layer, *qkv, mask), inputs, layer)
    assert_equal(plain, by_loops)
    fused = trace(lambda *qkv: layer(*qkv, mask), inputs, layer)
    by_loops = trace(lambda *qkv: multi_head_by_loops(layer, *qkv, mask)[0], inputs, layer)
    assert_equal(fused, by_loops)


@BOTH_PATHS
def test_dropout_drops_some_weights_and_scales_up_the_rest(generator, need_weights):
    layer, inputs = free_layer(dropout=0.5), random_inputs(generator, 10)
    layer.w_v.weight.data.zero_()
    layer.w_v.bias.data.fill_(1.0)  # every value is 1: a head returns the sum of its weights
    layer.w_o = nn.Identity()
    with seeded():
        sums, weights = layer(*inputs, need_weights=need_weights)
        mean = torch.stack([layer(*inputs, need_weights=need_weights)[0] for _ in range(400)])
    assert (sums - 1).abs().max() > 0.1
    heads = split_heads(sums, H)
    assert_equal(heads, heads[..., :1].expand_as(heads))  # it drops weights, not values
    if need_weights:  # as they were before dropout
        assert_equal(weights, layer.eval()(*inputs, need_weights=True)[1])
    # a sum has variance Σ w² ≤ 1, so the mean of 400 · B·T·H of them strays by less than 0.02
    assert abs(mean.mean().item() - 1) < 0.06


@BOTH_PATHS
def test_a_single_sentence_needs_no_batch(generator, need_weights):
    layer, inputs = free_layer(), random_inputs(generator, 10)
    output, _ = layer(*(x[0] for x in inputs), need_weights=need_weights)
    assert_equal(output, layer(*inputs)[0][0])
