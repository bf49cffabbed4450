"""MultiHeadAttention agrees with torch and with one loop per head, on both of its paths."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    CLOSE,
    D_K,
    D_MODEL,
    D_V,
    MASK_KINDS,
    TORCH_MASK_KINDS,
    B,
    H,
    S,
    T,
    assert_equal,
    assert_every_parameter_learns,
    assert_parity,
    make_generator,
    make_mask,
    multi_head_by_loops,
    normal,
    randomize,
    says,
    seeded,
    torch_attn_mask,
    trace,
)
from torch import nn

from course_lib.interop import load_from_torch
from course_lib.multi_head import MultiHeadAttention, head_width, split_heads

KDIM, VDIM = 8, 9  # widths of the key and value inputs, where they are free
BOTH_PATHS = pytest.mark.parametrize("need_weights", [True, False])


def random_inputs(generator, d_model=D_MODEL, kdim=None, vdim=None, dtype=torch.float64):
    """Draw query, key and value before their projections."""
    shapes = [(B, T, d_model), (B, S, kdim or d_model), (B, S, vdim or d_model)]
    return [normal(generator, *shape, dtype=dtype) for shape in shapes]


def free_layer(**changes):
    """Build a layer whose widths all differ: d_model 10 does not divide by 3 heads."""
    widths = dict(d_k=D_K, d_v=D_V, kdim=KDIM, vdim=VDIM)
    return randomize(MultiHeadAttention(10, H, **(widths | changes)))


# --- parity


@BOTH_PATHS
@pytest.mark.parametrize("widths", [{}, {"vdim": VDIM}, {"kdim": KDIM, "vdim": VDIM}], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", TORCH_MASK_KINDS)
def test_agrees_with_torch(generator, kind, bias, widths, need_weights):
    theirs = nn.MultiheadAttention(D_MODEL, H, bias=bias, batch_first=True, **widths)
    ours = MultiHeadAttention(D_MODEL, H, bias=bias, **widths).double()
    load_from_torch(ours, randomize(theirs))
    mask = make_mask(kind)
    blocked = torch_attn_mask(mask, T, S)
    how = dict(need_weights=need_weights, average_attn_weights=False)
    assert_parity(
        ours,
        theirs,
        lambda q, k, v: ours(q, k, v, mask, need_weights=need_weights),
        lambda q, k, v: theirs(q, k, v, attn_mask=blocked, **how),
        random_inputs(generator, **widths),
    )


@BOTH_PATHS
@pytest.mark.parametrize("num_heads", [1, 2, 6])
def test_agrees_with_torch_for_any_number_of_heads(generator, num_heads, need_weights):
    theirs = randomize(nn.MultiheadAttention(D_MODEL, num_heads, batch_first=True))
    ours = MultiHeadAttention(D_MODEL, num_heads).double()
    load_from_torch(ours, theirs)
    how = dict(need_weights=need_weights, average_attn_weights=False)
    assert_parity(
        ours,
        theirs,
        lambda q, k, v: ours(q, k, v, need_weights=need_weights),
        lambda q, k, v: theirs(q, k, v, **how),
        random_inputs(generator),
    )


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_agrees_with_loops_when_all_widths_are_free(generator, kind):
    layer, mask = free_layer(), make_mask(kind)
    inputs = random_inputs(generator, 10, KDIM, VDIM)
    ours = trace(lambda *qkv: layer(*qkv, mask, need_weights=True), inputs, layer)
    theirs = trace(lambda *qkv: multi_head_by_loops(layer, *qkv, mask), inputs, layer)
    assert_equal(ours, theirs)


# --- properties


@pytest.mark.parametrize("kind", MASK_KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_paths_say_the_same(generator, kind, dtype):
    layer, mask = free_layer().to(dtype), make_mask(kind)
    inputs = random_inputs(generator, 10, KDIM, VDIM, dtype)
    plain = trace(lambda *qkv: layer(*qkv, mask, need_weights=True)[0], inputs, layer)
    fused = trace(lambda *qkv: layer(*qkv, mask), inputs, layer)
    if dtype == torch.float64:
        assert_equal(fused, plain)
    else:
        torch.testing.assert_close(fused, plain, **CLOSE)


def test_without_being_asked_it_returns_no_weights(generator):
    assert free_layer()(*random_inputs(generator, 10, KDIM, VDIM))[1] is None


@BOTH_PATHS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_blocked_row_gives_zeros_with_finite_gradients(generator, dtype, need_weights):
    layer = free_layer().to(dtype)
    inputs = random_inputs(generator, 10, KDIM, VDIM, dtype)
    mask = make_mask("blocked row")
    result = trace(lambda *qkv: layer(*qkv, mask, need_weights=need_weights), inputs, layer)
    output = result["outputs"][0]
    # in all heads of sentence 0, query 1 sees nothing: only the bias of w_o is left to say
    torch.testing.assert_close(output[0, 1], layer.w_o.bias.detach())
    gradients = [*result["inputs"], *result["parameters"].values()]
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (result["inputs"][0][0, 1] == 0).all()
    if need_weights:
        weights = result["outputs"][1]
        assert (weights[~mask.any(dim=-1)] == 0).all()


@BOTH_PATHS
def test_gradients_reach_every_parameter_but_the_bias_of_the_keys(generator, need_weights):
    layer = free_layer()
    inputs = random_inputs(generator, 10, KDIM, VDIM)
    mask = make_mask("per head")
    result = trace(lambda *qkv: layer(*qkv, mask, need_weights=need_weights)[0], inputs, layer)
    assert_every_parameter_learns(layer, result["parameters"])


@given(seed=st.integers(0, 2**31), need_weights=st.booleans(), order=st.permutations(range(S)))
def test_without_positions_a_permuted_sentence_gives_permuted_answers(seed, need_weights, order):
    layer = randomize(MultiHeadAttention(D_MODEL, H), seed)
    x = normal(make_generator(seed), B, S, D_MODEL)
    moved = x[:, order]
    output, _ = layer(x, x, x)
    moved_output, _ = layer(moved, moved, moved, need_weights=need_weights)
    assert_equal(moved_output, output[:, order])


@given(seed=st.integers(0, 2**31), need_weights=st.booleans(), density=st.floats(0.1, 1.0))
def test_weights_are_distributions_in_every_head(seed, need_weights, density):
    generator, layer = make_generator(seed), free_layer()
    mask = torch.rand(B, H, T, S, generator=generator) < density
    inputs = random_inputs(generator, 10, KDIM, VDIM)
    _, weights = layer(*inputs, mask, need_weights=True)
    assert weights.shape == (B, H, T, S)
    assert (weights >= 0).all() and (weights[~mask] == 0).all()
    assert_equal(weights.sum(dim=-1), mask.any(dim=-1).double())


@BOTH_PATHS
def test_a_sentence_is_answered_alike_alone_and_in_a_batch(generator, need_weights):
    layer, inputs = free_layer(), random_inputs(generator, 10, KDIM, VDIM)
    output, _ = layer(*inputs, need_weights=need_weights)
    for row in range(B):
        alone, _ = layer(*(x[row : row + 1] for x in inputs), need_weights=need_weights)
        assert_equal(alone, output[row : row + 1])


@BOTH_PATHS
@pytest.mark.parametrize("kind", MASK_KINDS)
def test_inputs_and_mask_are_left_unchanged(generator, kind, need_weights):
    layer, mask = free_layer(), make_mask(kind)
    inputs = random_inputs(generator, 10, KDIM, VDIM)
    kept = [x.clone() for x in inputs], None if mask is None else mask.clone()
    layer(*inputs, mask, need_weights=need_weights)
    torch.testing.assert_close((inputs, mask), kept, rtol=0, atol=0)


def test_as_many_numbers_as_four_square_matrices():
    layer = MultiHeadAttention(D_MODEL, H, bias=False)
    assert sum(p.numel() for p in layer.parameters()) == 4 * 18 * 18


@BOTH_PATHS
def test_dropout_acts_on_the_weights_while_training(generator, need_weights):
    layer, inputs = free_layer(dropout=1.0), random_inputs(generator, 10, KDIM, VDIM)
    output, weights = layer(*inputs, need_weights=need_weights)
    assert_equal(output, layer.w_o.bias.expand(B, T, 10))  # no weight is left
    if need_weights:
        assert_equal(weights.sum(dim=-1), torch.ones(B, H, T, dtype=torch.float64))


@BOTH_PATHS
def test_dropout_drops_some_weights_and_scales_up_the_rest(generator, need_weights):
    layer, inputs = free_layer(dropout=0.5), random_inputs(generator, 10, KDIM, VDIM)
    layer.w_v.weight.data.zero_()
    layer.w_v.bias.data.fill_(1.0)  # every value is 1: a head says the sum of its weights
    layer.w_o = nn.Identity()
    with seeded():
        sums, _ = layer(*inputs, need_weights=need_weights)
        mean = torch.stack([layer(*inputs, need_weights=need_weights)[0] for _ in range(400)])
    assert (sums - 1).abs().max() > 0.1
    # a sum has variance Σ w² ≤ 1, so the mean of 400 · B·T·H of them strays by less than 0.02
    assert abs(mean.mean().item() - 1) < 0.06


@BOTH_PATHS
def test_nothing_is_random_in_eval_mode(generator, need_weights):
    layer, inputs = free_layer(dropout=0.5).eval(), random_inputs(generator, 10, KDIM, VDIM)
    expected = multi_head_by_loops(layer, *inputs)[0]
    for _ in range(2):
        assert_equal(layer(*inputs, need_weights=need_weights)[0], expected)


# --- limits


@BOTH_PATHS
def test_one_token_one_head_batch_of_one(generator, need_weights):
    layer = randomize(MultiHeadAttention(D_MODEL, 1))
    x = normal(generator, 1, 1, D_MODEL)
    output, _ = layer(x, x, x, need_weights=need_weights)
    assert_equal(output, layer.w_o(layer.w_v(x)))  # with one key there is nothing to weigh


@BOTH_PATHS
def test_the_only_visible_key_is_read_whatever_the_query(generator, need_weights):
    layer, (query, key, value) = free_layer(), random_inputs(generator, 10, KDIM, VDIM)
    mask = torch.arange(S) == 2
    output, _ = layer(query, key, value, mask, need_weights=need_weights)
    assert_equal(output, layer.w_o(layer.w_v(value[:, 2:3])).expand(B, T, 10))


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_single_sentence_needs_no_batch(generator, need_weights):
    layer, inputs = free_layer(), random_inputs(generator, 10, KDIM, VDIM)
    output, _ = layer(*(x[0] for x in inputs), need_weights=need_weights)
    assert_equal(output, layer(*inputs)[0][0])


def test_heads_are_cut_side_by_side():
    x = torch.arange(2 * 6).view(1, 2, 6)  # two tokens, columns 0 … 5
    expected = [[[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10, 11]]]]
    assert split_heads(x, num_heads=3).tolist() == expected


# --- errors


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((10, 3), ["d_model=10", "num_heads=3", "remainder is 1"]),
        ((0, 3), ["d_model=0"]),
        ((12, 0), ["num_heads=0"]),
        ((12, -3), ["num_heads=-3"]),
    ],
)
def test_sizes_that_cannot_be_split_are_named(sizes, message):
    with pytest.raises(ValueError, match=says(*message)):
        MultiHeadAttention(*sizes)
    with pytest.raises(ValueError, match=says(*message)):
        head_width(*sizes)


@pytest.mark.parametrize("name", ["d_k", "d_v", "kdim", "vdim"])
@pytest.mark.parametrize("width", [0, -1])
def test_widths_below_1_are_refused(name, width):
    with pytest.raises(ValueError, match=says(width)):
        MultiHeadAttention(12, 3, **{name: width})


def test_only_a_free_d_k_and_d_v_let_any_d_model_be_split():
    with pytest.raises(ValueError, match=says("d_model=10", "num_heads=3")):
        MultiHeadAttention(10, 3, d_k=4)
    with pytest.raises(ValueError, match=says("d_model=10", "num_heads=3")):
        MultiHeadAttention(10, 3, d_v=4)


@BOTH_PATHS
@pytest.mark.parametrize(
    ("wrong", "shape", "message"),
    [
        (0, (B, T, 9), ["query", (B, T, 9), 10]),
        (1, (B, S, 10), ["key", (B, S, 10), KDIM]),
        (2, (B, S, 10), ["value", (B, S, 10), VDIM]),
        (0, (10,), ["query", (10,)]),
        (2, (B, 3, VDIM), ["5 keys", "3 values"]),
        (0, (3, T, 10), [(3, H, T, D_K), (B, H, S, D_K)]),
    ],
)
def test_inputs_that_do_not_fit_are_named(generator, wrong, shape, message, need_weights):
    inputs = random_inputs(generator, 10, KDIM, VDIM)
    inputs[wrong] = normal(generator, *shape)
    with pytest.raises(ValueError, match=says(*message)):
        free_layer()(*inputs, need_weights=need_weights)


@BOTH_PATHS
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(T, S), ["boolean", torch.float32]),
        (torch.ones(S, T, dtype=torch.bool), [(S, T), (B, H, T, S)]),
        (torch.ones(B, T, S, dtype=torch.bool), [(B, T, S), (B, H, T, S)]),
    ],
)
def test_masks_that_do_not_fit_are_refused(generator, mask, message, need_weights):
    inputs = random_inputs(generator, 10, KDIM, VDIM)
    with pytest.raises(ValueError, match=says(*message)):
        free_layer()(*inputs, mask, need_weights=need_weights)


@pytest.mark.parametrize("dropout", [-0.1, 1.5])
def test_a_share_outside_0_to_1_is_refused(dropout):
    with pytest.raises(ValueError, match=says(dropout)):
        MultiHeadAttention(12, 3, dropout=dropout)
