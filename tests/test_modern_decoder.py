"""The parts of later models are what their formulas say, and fit where the old ones were."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    MAX_LEN,
    B,
    T,
    assert_equal,
    attention_by_loops,
    make_generator,
    normal,
    randomize,
    says,
    seeded,
    trace,
)
from torch import nn
from torch.nn import functional as F

from course_lib.feed_forward import FeedForward
from course_lib.gpt import GPT, CausalSelfAttention, GPTCache, GPTConfig, param_groups
from course_lib.modern_decoder import (
    GroupedQueryAttention,
    RMSNorm,
    RotaryAttention,
    SwiGLU,
    apply_rope,
)
from course_lib.positions import sinusoidal_encoding

H, D_K, D_FF, VOCAB, N = 6, 10, 7, 11, 3  # 6 heads can share 1, 2, 3 or 6 sets
WIDTH = H * D_K
SEEDS = st.integers(0, 2**31)
GROUPS = pytest.mark.parametrize("num_groups", [1, 2, 3, H])
ROWS = dict(rtol=0.0, atol=1e-6)  # the table of chapter 03 is kept in float32
SCORES = dict(rtol=0.0, atol=2e-5)  # sums of products of such numbers


def rotary(**changes):
    """Build an attention that turns queries and keys, in float64, filled with random numbers."""
    return randomize(RotaryAttention(WIDTH, H, **changes))


def grouped(num_groups=2, **changes):
    """Build an attention whose heads share sets, in float64, filled with random numbers."""
    return randomize(GroupedQueryAttention(WIDTH, H, num_groups, **changes))


class LaterAttention(GroupedQueryAttention):
    """Share keys and turn what is compared, as chapter 19 does at its end."""

    def project(self, x):
        """Turn queries and keys once they are given to their heads."""
        q, k, v = super().project(x)
        return apply_rope(q), apply_rope(k), v


def plain(attention):
    """Return chapter 18's attention with the weights of another."""
    same = CausalSelfAttention(WIDTH, H).double()
    same.load_state_dict(attention.state_dict())
    return same


KINDS = {
    "rotary": rotary,
    "grouped": grouped,
    "both": lambda **changes: randomize(LaterAttention(WIDTH, H, 2, **changes)),
}
EVERY_KIND = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())

# --- RMSNorm


@pytest.mark.parametrize("eps", [1e-8, 1e-5, 1e-2])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])  # of small vectors eps makes the length
def test_rms_norm_agrees_with_torch(generator, eps, scale):
    ours = randomize(RMSNorm(WIDTH, eps))
    theirs = randomize(nn.RMSNorm(WIDTH, eps))
    x = [scale * normal(generator, B, T, WIDTH)]
    assert_equal(trace(ours, x, ours), trace(theirs, x, theirs))


@pytest.mark.parametrize("shape", [(), (0,), (T,), (B, T), (B, 1, 3, T)])
def test_rms_norm_takes_vectors_in_any_arrangement(generator, shape):
    ours, theirs = randomize(RMSNorm(5)), randomize(nn.RMSNorm(5, eps=1e-5))
    x = [normal(generator, *shape, 5)]
    assert_equal(trace(ours, x, ours), trace(theirs, x, theirs))


def test_rms_norm_adds_a_hundred_thousandth_unless_told(generator):
    x = 1e-3 * normal(generator, T, WIDTH)  # mean square 1e-6: eps decides
    assert_equal(RMSNorm(WIDTH).double()(x), F.rms_norm(x, (WIDTH,), eps=1e-5))


def test_rms_norm_keeps_the_eps_it_was_given():
    assert RMSNorm(WIDTH, eps=0.25).eps == 0.25


def test_rms_norm_worked_out_by_hand():
    # 1, 7: mean square (1 + 49) / 2 = 25; gains 2 and 3
    norm = RMSNorm(2, eps=0.0).double()
    norm.weight.data.copy_(torch.tensor([2.0, 3.0]))
    assert norm(torch.tensor([1.0, 7.0]).double()).tolist() == pytest.approx([2 / 5, 21 / 5])


def test_the_gains_of_a_new_rms_norm_are_1():
    assert RMSNorm(3).weight.tolist() == [1, 1, 1]


def test_a_gain_is_all_that_rms_norm_learns():
    assert RMSNorm(3).state_dict().keys() == {"weight"}


@given(seed=SEEDS, scale=st.floats(0.1, 10))
def test_rms_norm_is_layer_norm_where_the_mean_is_0(seed, scale):
    x = scale * normal(make_generator(seed), B, T, WIDTH)
    centred = x - x.mean(dim=-1, keepdim=True)
    ours, theirs = randomize(RMSNorm(WIDTH)), randomize(nn.LayerNorm(WIDTH, bias=False))
    assert_equal(ours(centred), theirs(centred))


@given(seed=SEEDS, shift=st.floats(1, 10))
def test_rms_norm_leaves_the_mean_where_it_was_measured_in_lengths(seed, shift):
    x = shift + normal(make_generator(seed), T, WIDTH)
    length = x.square().mean(dim=-1).sqrt()
    output = RMSNorm(WIDTH, eps=0.0).double()(x)
    assert_equal(output.mean(dim=-1), x.mean(dim=-1) / length)


@given(seed=SEEDS, exponent=st.floats(-6, 6), sign=st.sampled_from([-1, 1]))
def test_without_eps_rms_norm_forgets_the_scale_but_not_the_sign(seed, exponent, sign):
    x, norm = normal(make_generator(seed), B, T, WIDTH), randomize(RMSNorm(WIDTH, eps=0.0))
    assert_equal(norm(sign * 10**exponent * x), sign * norm(x))


@given(seed=SEEDS, t=st.integers(0, T - 1))
def test_rms_norm_looks_at_one_vector_at_a_time(seed, t):
    generator, norm = make_generator(seed), randomize(RMSNorm(WIDTH))
    x = normal(generator, B, T, WIDTH)
    changed = x.clone()
    changed[1, t] = normal(generator, WIDTH)
    same = torch.ones(B, T, dtype=torch.bool)
    same[1, t] = False
    assert torch.equal(norm(x)[same], norm(changed)[same])


def test_zeros_stay_zeros():
    assert (randomize(RMSNorm(WIDTH))(torch.zeros(T, WIDTH).double()) == 0).all()


def test_the_gradient_at_zeros_is_the_gain_over_the_root_of_eps(generator):
    norm, towards = randomize(RMSNorm(WIDTH, eps=1e-4)), normal(generator, WIDTH)
    x = torch.zeros(WIDTH, dtype=torch.float64, requires_grad=True)
    (norm(x) * towards).sum().backward()
    assert_equal(x.grad, (norm.weight * towards / 1e-2).detach())


def test_rms_norm_leaves_its_input_unchanged(generator):
    x = normal(generator, T, WIDTH)
    kept = x.clone()
    randomize(RMSNorm(WIDTH))(x)
    assert torch.equal(x, kept)


# --- SwiGLU


def make_swiglu():
    """Build one in float64, filled with random numbers; no two sizes are equal."""
    return randomize(SwiGLU(WIDTH, D_FF))


@pytest.mark.parametrize("shape", [(), (T,), (B, T), (B, 3, T)])
def test_swiglu_agrees_with_its_formula(generator, shape):
    layer, x = make_swiglu(), [normal(generator, *shape, WIDTH)]

    def by_hand(x):
        lift, gate, down = (part.weight for part in (layer.linear1, layer.gate, layer.linear2))
        return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, lift), down)

    ours = trace(layer, x, layer)
    assert all(gradient.abs().max() > 1e-6 for gradient in ours["parameters"].values())
    assert_equal(ours, trace(by_hand, x, layer))


def test_swiglu_worked_out_by_hand():
    # x = 2, features 3 · 2 = 6, gate 0.5 · 2 = 1, which lets 1 / (1 + e^-1) pass, down by 10
    layer = SwiGLU(1, 1).double()
    for name, value in {"linear1": 3.0, "gate": 0.5, "linear2": 10.0}.items():
        getattr(layer, name).weight.data.fill_(value)
    said = layer(torch.tensor([2.0]).double()).item()
    assert said == pytest.approx(60 / (1 + math.exp(-1)))


@given(seed=SEEDS, t=st.integers(0, T - 1))
def test_swiglu_looks_at_one_position_at_a_time(seed, t):
    generator, layer = make_generator(seed), make_swiglu()
    x = normal(generator, B, T, WIDTH)
    changed = x.clone()
    changed[1, t] = normal(generator, WIDTH)
    change = (layer(changed) - layer(x)).abs().amax(dim=-1) > 1e-9  # (B, T)
    assert change.nonzero().tolist() == [[1, t]]


def test_a_gate_of_zeros_lets_nothing_pass(generator):
    layer = make_swiglu()
    layer.gate.weight.data.zero_()
    assert (layer(normal(generator, T, WIDTH)) == 0).all()


@pytest.mark.parametrize("feature", range(D_FF))
def test_each_feature_has_its_own_gate(generator, feature):
    layer, x = make_swiglu(), normal(generator, T, WIDTH)
    closed, missing = make_swiglu(), make_swiglu()
    closed.gate.weight.data[feature] = 0
    missing.linear2.weight.data[:, feature] = 0
    assert_equal(closed(x), missing(x))
    assert (closed(x) - layer(x)).abs().max() > 1e-6


def test_swiglu_has_three_matrices_and_no_biases():
    shapes = {name: tuple(p.shape) for name, p in SwiGLU(WIDTH, D_FF).named_parameters()}
    lift, down = (D_FF, WIDTH), (WIDTH, D_FF)
    assert shapes == {"linear1.weight": lift, "gate.weight": lift, "linear2.weight": down}


@pytest.mark.parametrize(("d_model", "d_ff"), [(4, 6), (64, 192), (5, 3)])
def test_two_thirds_as_wide_it_costs_what_a_feed_forward_costs(d_model, d_ff):
    gated, old = SwiGLU(d_model, 2 * d_ff // 3), FeedForward(d_model, d_ff)
    matrices = [p.numel() for p in old.parameters() if p.dim() == 2]
    assert sum(p.numel() for p in gated.parameters()) == sum(matrices)


# --- rotate


def by_complex_numbers(x, start=0, sine_and_cosine=None):
    """Read every pair as a complex number, and multiply it by e^(i · position · frequency)."""
    length, d_k = x.shape[-2:]
    places = torch.arange(start, start + length, dtype=torch.float64)
    frequencies = 10000 ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    turns = torch.polar(torch.ones(()).double(), torch.outer(places, frequencies))
    if sine_and_cosine is not None:
        turns = torch.complex(sine_and_cosine[:, 1::2], sine_and_cosine[:, 0::2])
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())  # (..., T, d_k / 2)
    return torch.view_as_real(pairs * turns).flatten(-2)  # (..., T, d_k)


@given(seed=SEEDS, start=st.integers(0, 3000), width=st.sampled_from([2, 4, 6, 18]))
def test_to_rotate_is_to_multiply_complex_numbers(seed, start, width):
    x = [normal(make_generator(seed), B, T, width)]
    ours = trace(lambda x: apply_rope(x, start), x)
    theirs = trace(lambda x: by_complex_numbers(x, start), x)
    torch.testing.assert_close(ours, theirs, **ROWS)


@pytest.mark.parametrize("start", [0, 9])
def test_with_the_table_of_chapter_03_the_product_is_exact(generator, start):
    x, table = [normal(generator, B, T, D_K)], sinusoidal_encoding(start + T, D_K)[start:]
    ours = trace(lambda x: apply_rope(x, start), x)
    assert_equal(ours, trace(lambda x: by_complex_numbers(x, start, table.double()), x))


def test_a_rotation_worked_out_by_hand():
    # row 1 of width 4: the angles are 1 and 1 / 10000^(2 / 4) = 1 / 100; the row is (1, 0, 0, 1)
    x = torch.tensor([[1.0, 0.0, 0.0, 1.0]]).double()
    expected = [math.cos(1), math.sin(1), -math.sin(0.01), math.cos(0.01)]
    assert apply_rope(x, 1)[0].tolist() == pytest.approx(expected, abs=1e-6)


@given(length=st.integers(1, 40), start=st.integers(0, 40), pairs=st.integers(1, 9))
def test_pairs_of_1_and_0_become_cosine_and_sine_of_chapter_03(length, start, pairs):
    ones = torch.tensor([1.0, 0.0]).repeat(length, pairs)
    table = sinusoidal_encoding(start + length, 2 * pairs)[start:]
    cosine_first = table.unflatten(-1, (pairs, 2)).flip(-1).flatten(-2)
    assert torch.equal(apply_rope(ones, start), cosine_first)


@given(seed=SEEDS, step=st.integers(0, 40), pair=st.integers(0, D_K // 2 - 1))
def test_a_step_is_the_rotation_matrix_of_chapter_03_turned_over(seed, step, pair):
    x, own = normal(make_generator(seed), 1, D_K), slice(2 * pair, 2 * pair + 2)
    angle = step / 10000 ** (2 * pair / D_K)
    chapter_03 = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    turn = torch.tensor(chapter_03).double().T  # there the sine comes first, here the cosine
    torch.testing.assert_close(apply_rope(x, step)[0, own], turn @ x[0, own], **ROWS)


DISTANCES = st.integers(0, 200)


@given(seed=SEEDS, start=DISTANCES, distance=DISTANCES, shift=st.integers(1, 500))
def test_a_score_depends_on_the_distance_alone(seed, start, distance, shift):
    q, k = normal(make_generator(seed), 2, 1, D_K)
    here = apply_rope(q, start + distance) @ apply_rope(k, start).T
    there = apply_rope(q, start + shift + distance) @ apply_rope(k, start + shift).T
    torch.testing.assert_close(here, there, **SCORES)


@given(distance=DISTANCES)
def test_a_vector_scores_itself_by_the_cosines_of_the_distance(distance):
    x = torch.ones(1, D_K).double()  # every pair has length √2
    cosines = [math.cos(distance / 10000 ** (2 * pair / D_K)) for pair in range(D_K // 2)]
    score = (apply_rope(x, distance) @ x.T).item()
    assert score == pytest.approx(2 * sum(cosines), abs=2e-5)


@given(seed=SEEDS, start=st.integers(0, 5000))
def test_no_pair_changes_its_length(seed, start):
    x = normal(make_generator(seed), B, T, D_K)
    before, after = (y.unflatten(-1, (-1, 2)).norm(dim=-1) for y in (x, apply_rope(x, start)))
    torch.testing.assert_close(after, before, **ROWS)


def test_position_0_is_not_turned(generator):
    x = normal(generator, B, T, D_K)
    assert torch.equal(apply_rope(x)[:, 0], x[:, 0])


def test_every_later_position_is_turned(generator):
    x = normal(generator, B, T, D_K)
    assert ((apply_rope(x) - x)[:, 1:].abs() > 1e-6).all()


@given(seed=SEEDS, start=st.integers(0, 60), length=st.integers(1, 20))
def test_a_start_goes_on_where_a_longer_text_would_be(seed, start, length):
    longer = normal(make_generator(seed), B, start + length, D_K)
    assert torch.equal(apply_rope(longer[:, start:], start), apply_rope(longer)[:, start:])


def test_every_batch_and_every_head_is_turned_alike(generator):
    x = normal(generator, B, 3, T, D_K)
    turned = apply_rope(x)
    for row in range(B):
        for head in range(3):
            assert torch.equal(turned[row, head], apply_rope(x[row, head]))


@given(seed=SEEDS, start=st.integers(0, 90))
def test_the_gradient_is_turned_back(seed, start):
    x, towards = normal(make_generator(seed), 2, B, T, D_K)
    x.requires_grad_()
    (apply_rope(x, start) * towards).sum().backward()
    torch.testing.assert_close(apply_rope(x.grad, start), towards, **ROWS)


NUMBERS = {torch.float64: 1e-6, torch.float32: 1e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}


@pytest.mark.parametrize(("dtype", "atol"), NUMBERS.items())
def test_numbers_of_each_kind_stay_of_that_kind(generator, dtype, atol):
    # 3e-2 and 4e-3: two products of numbers up to 4, with 8 and 11 binary digits
    x = normal(generator, B, T, D_K).clamp(-4, 4)
    turned = apply_rope(x.to(dtype), 2)
    expected = apply_rope(x.to(dtype).double(), 2).to(dtype)
    torch.testing.assert_close(turned, expected, rtol=0.0, atol=atol)  # and the kind


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_default_kind_of_number_is_not_forced_upon_the_input(generator, dtype):
    x = normal(generator, T, D_K).to(dtype)
    torch.set_default_dtype(torch.float64)
    try:
        turned = apply_rope(x)
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(turned, apply_rope(x), **ROWS)


def test_what_lies_on_another_device_stays_there():
    assert apply_rope(torch.zeros(B, T, D_K, device="meta")).device.type == "meta"


def test_what_is_turned_is_left_unchanged(generator):
    x = normal(generator, B, T, D_K)
    kept = x.clone()
    apply_rope(x, 3)
    assert torch.equal(x, kept)


@pytest.mark.parametrize("width", [1, 5, 9])
def test_an_odd_width_is_named(width):
    with pytest.raises(ValueError, match=says("odd", width)):
        apply_rope(torch.zeros(B, T, width))


# --- RotaryAttention


def turned_by_hand(q, k, start=0):
    """Turn queries and keys with complex numbers, by chapter 03's table."""
    table = sinusoidal_encoding(start + q.size(-2), D_K)[start:].double()
    return (by_complex_numbers(x, start, table) for x in (q, k))


def seen(length):
    """Return which keys each query may look at."""
    return torch.ones(length, length, dtype=torch.bool).tril()


@pytest.mark.parametrize("length", [1, 2, T])
def test_rotary_attention_is_attention_with_turned_queries_and_keys(generator, length):
    attention, x = rotary(), [normal(generator, B, length, WIDTH)]

    def by_hand(x):
        q, k, v = F.linear(x, attention.w_qkv.weight, attention.w_qkv.bias).chunk(3, dim=-1)
        q, k, v = (y.unflatten(-1, (H, D_K)).transpose(1, 2) for y in (q, k, v))
        blend, _ = attention_by_loops(*turned_by_hand(q, k), v, seen(length))
        joined = torch.cat([blend[:, head] for head in range(H)], dim=-1)
        return F.linear(joined, attention.w_o.weight, attention.w_o.bias)

    ours = trace(attention, x, attention)
    assert ours["parameters"].keys() == dict(attention.named_parameters()).keys()
    assert_equal(ours, trace(by_hand, x, attention))


def test_queries_and_keys_are_turned_and_values_are_not(generator):
    attention, x = rotary(), normal(generator, B, T, WIDTH)
    q, k, v = plain(attention).project(x)
    assert_equal(list(attention.project(x)), [*turned_by_hand(q, k), v])


def test_one_token_is_at_position_0_so_nothing_is_turned(generator):
    attention, x = rotary(), normal(generator, B, 1, WIDTH)
    assert_equal(attention(x), plain(attention)(x))


def test_tokens_that_are_all_alike_hear_that_one_value_unturned(generator):
    attention, x = rotary(), normal(generator, B, 1, WIDTH)
    _, _, v = plain(attention).project(x)
    assert_equal(attention(x.expand(B, T, WIDTH)), attention.merge(v).expand(B, T, WIDTH))


@given(seed=SEEDS, start=st.integers(1, 300))
def test_a_window_says_the_same_wherever_it_lies(seed, start):
    attention, x = rotary(), normal(make_generator(seed), B, T, WIDTH)
    q, k, v = plain(attention).project(x)
    q, k = turned_by_hand(q, k, start)
    weights = (q @ k.transpose(-1, -2) / D_K**0.5).masked_fill(~seen(T), -math.inf).softmax(-1)
    torch.testing.assert_close(attention(x), attention.merge(weights @ v), **SCORES)


def test_the_order_of_earlier_tokens_shows_through_the_rotation_alone(generator):
    attention, x = rotary(), normal(generator, B, T, WIDTH)
    swapped = x[:, [1, 0, 2, 3]]
    still = plain(attention)
    assert_equal(still(swapped)[:, 2:], still(x)[:, 2:])  # a bag of what came before
    change = (attention(swapped) - attention(x)).abs().amax(dim=-1)  # (B, T)
    assert (change[:, 2:] > 1e-6).all()


def test_rotary_attention_saves_what_the_old_one_saves():
    new, old = (kind(WIDTH, H).state_dict() for kind in (RotaryAttention, CausalSelfAttention))
    assert {name: p.shape for name, p in new.items()} == {name: p.shape for name, p in old.items()}


@pytest.mark.parametrize(("num_heads", "width"), [(2, 3), (6, 1), (1, 5)])
def test_a_head_of_odd_width_is_named(num_heads, width):
    with pytest.raises(ValueError, match=says("odd", width)):
        d_model = num_heads * width
        RotaryAttention(d_model, num_heads)(torch.zeros(B, T, d_model))


# --- GroupedQueryAttention


@pytest.mark.parametrize("length", [1, 2, T])
def test_with_a_set_for_each_head_it_is_the_attention_of_chapter_16(generator, length):
    attention, x = grouped(num_groups=H), [normal(generator, B, length, WIDTH)]
    same = plain(attention)
    assert_equal(trace(attention, x, attention), trace(same, x, same))


def parts_by_hand(attention, x):
    """Cut queries (B, H, T, d_k), keys and values (B, G, T, d_k) out of one product."""
    G = attention.num_groups
    whole = F.linear(x, attention.w_qkv.weight, attention.w_qkv.bias)
    q, k, v = whole.split([H * D_K, G * D_K, G * D_K], dim=-1)
    cut = [(q, H), (k, G), (v, G)]
    return [part.unflatten(-1, (count, D_K)).transpose(1, 2) for part, count in cut]


@GROUPS
def test_grouped_attention_agrees_with_the_kernel_of_torch(generator, num_groups):
    attention, x = grouped(num_groups), [normal(generator, B, T, WIDTH)]

    def by_torch(x):
        parts = parts_by_hand(attention, x)
        heads = F.scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
        joined = heads.transpose(1, 2).reshape(x.shape)
        return F.linear(joined, attention.w_o.weight, attention.w_o.bias)

    ours = trace(attention, x, attention)
    assert ours["parameters"].keys() == dict(attention.named_parameters()).keys()
    assert_equal(ours, trace(by_torch, x, attention))


@GROUPS
def test_grouped_attention_agrees_with_the_formula_head_by_head(generator, num_groups):
    attention, x = grouped(num_groups), [normal(generator, B, T, WIDTH)]
    weight, bias = attention.w_qkv.weight, attention.w_qkv.bias

    def by_hand(x):
        answer = attention.w_o.bias
        for head in range(H):
            group = head * num_groups // H
            places = (head, H + group, H + num_groups + group)
            rows = [slice(place * D_K, (place + 1) * D_K) for place in places]
            q, k, v = (x @ weight[own].T + bias[own] for own in rows)
            blend, _ = attention_by_loops(q, k, v, seen(T))
            answer = answer + blend @ attention.w_o.weight[:, rows[0]].T
        return answer

    assert_equal(trace(attention, x, attention), trace(by_hand, x, attention))


@pytest.mark.parametrize("which", ["keys", "values"])
@pytest.mark.parametrize(("num_groups", "group"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_a_set_is_read_by_its_own_heads_alone(generator, num_groups, group, which):
    attention, x = grouped(num_groups), normal(generator, B, T, WIDTH)
    part = 1 + (which == "values")
    before = attention.project(x)[part]
    row = (H + (part - 1) * num_groups + group) * D_K
    attention.w_qkv.bias.data[row : row + D_K] += 1.0
    change = (attention.project(x)[part] - before).abs().amin(dim=(0, 2, 3))  # (H,)
    share = H // num_groups
    readers = list(range(group * share, (group + 1) * share))
    assert (change > 0.5).nonzero().flatten().tolist() == readers


@GROUPS
def test_every_head_asks_for_itself(generator, num_groups):
    attention, x = grouped(num_groups), normal(generator, B, T, WIDTH)
    q, k, v = attention.project(x)
    assert_equal(q, parts_by_hand(attention, x)[0])
    assert len(k[0, :, 0].unique(dim=0)) == len(v[0, :, 0].unique(dim=0)) == num_groups


@pytest.mark.parametrize(
    ("d_model", "num_heads", "num_groups"), [(60, 6, 1), (60, 6, 2), (60, 6, 6), (64, 4, 1)]
)
def test_so_many_numbers_are_learned(d_model, num_heads, num_groups):
    attention = GroupedQueryAttention(d_model, num_heads, num_groups)
    width = (num_heads + 2 * num_groups) * (d_model // num_heads)
    learned = d_model * width + width + d_model * d_model + d_model
    assert sum(p.numel() for p in attention.parameters()) == learned


@GROUPS
def test_grouped_attention_saves_under_the_old_names(num_groups):
    old = CausalSelfAttention(WIDTH, H).state_dict()
    assert grouped(num_groups).state_dict().keys() == old.keys()


@GROUPS
def test_the_number_of_groups_can_be_read_again(num_groups):
    assert grouped(num_groups).num_groups == num_groups


@pytest.mark.parametrize("num_groups", [0, -1, -2, 4, 5, 7, 2 * H])
def test_sets_that_cannot_be_shared_evenly_are_named(num_groups):
    with pytest.raises(ValueError, match=says(f"{H} heads", f"{num_groups} sets")):
        GroupedQueryAttention(WIDTH, H, num_groups)


def test_heads_that_do_not_divide_the_width_are_named():
    with pytest.raises(ValueError, match=says("d_model=10", "num_heads=4")):
        GroupedQueryAttention(10, 4, 2)


# --- both kinds of attention


@EVERY_KIND
@given(seed=SEEDS, cut=st.integers(1, T - 1), training=st.booleans())
def test_the_future_cannot_change_the_past(make, seed, cut, training):
    generator, attention = make_generator(seed), make(dropout=0.3).train(training)
    x = normal(generator, B, T, WIDTH)
    changed = x.clone()
    changed[:, cut:] = normal(generator, B, T - cut, WIDTH)
    with seeded(seed):
        before = attention(x)
    with seeded(seed):  # the same numbers are dropped
        after = attention(changed)
    assert_equal(after[:, :cut], before[:, :cut])


@EVERY_KIND
def test_every_token_reaches_every_row_from_its_own_on(make, generator):
    attention, x = make(), normal(generator, B, T, WIDTH)
    for place in range(T):
        changed = x.clone()
        changed[:, place] += 1.0
        change = (attention(changed) - attention(x)).abs().amax(dim=-1)  # (B, T)
        assert (change[:, place:] > 1e-6).all()


@EVERY_KIND
def test_nothing_is_random_in_eval_mode(make, generator):
    x = normal(generator, B, T, WIDTH)
    assert_equal(make(dropout=0.5).eval()(x), make()(x))


@EVERY_KIND
def test_in_training_dropout_of_all_weights_leaves_the_last_bias(make, generator):
    attention = make(dropout=1.0)
    said = attention(normal(generator, B, T, WIDTH))
    assert_equal(said, attention.w_o.bias.detach().expand_as(said))


@EVERY_KIND
def test_a_quarter_of_the_weights_is_dropped_and_the_rest_makes_up_for_it(make):
    # 18,000 draws: the share is known to 0.003; one token each, so one weight of 1 a head
    attention = make(dropout=0.25)
    attention.w_qkv.weight.data.zero_()
    attention.w_qkv.bias.data.fill_(1.0)
    attention.w_o.weight.data.copy_(torch.eye(WIDTH))
    attention.w_o.bias.data.zero_()
    with seeded():
        said = attention(torch.zeros(3000, 1, WIDTH, dtype=torch.float64)).view(3000, H, D_K)
    assert_equal(said[said != 0], torch.full_like(said[said != 0], 4 / 3))
    assert (said == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)


@EVERY_KIND
@given(seed=SEEDS)
def test_a_text_is_read_alike_alone_and_in_a_batch(make, seed):
    attention, x = make(), normal(make_generator(seed), B, T, WIDTH)
    assert_equal(attention(x[1:]), attention(x)[1:])


@pytest.mark.parametrize("kind", [RotaryAttention, lambda *sizes: GroupedQueryAttention(*sizes, 2)])
def test_weights_are_never_dropped_unless_asked(kind):
    assert kind(WIDTH, H).dropout == 0.0


# --- in a GPT, as chapter 19 puts them in


def with_norm(model):
    """Put RMSNorm where the LayerNorms are."""
    for layer in model.layers:
        layer.add_norm1.norm, layer.add_norm2.norm = RMSNorm(WIDTH), RMSNorm(WIDTH)
    model.norm = RMSNorm(WIDTH)


def with_gate(model):
    """Put SwiGLU where the feed-forward is."""
    for layer in model.layers:
        layer.feed_forward = SwiGLU(WIDTH, D_FF)


def with_rotation(model):
    """Turn queries and keys, and add nothing."""
    model.positions = nn.Identity()
    for layer in model.layers:
        layer.self_attn = RotaryAttention(WIDTH, H)


def with_groups(model):
    """Let the heads share two sets."""
    for layer in model.layers:
        layer.self_attn = GroupedQueryAttention(WIDTH, H, 2)


def with_all(model):
    """Put in all four."""
    for change in (with_norm, with_gate, with_rotation):
        change(model)
    for layer in model.layers:
        layer.self_attn = LaterAttention(WIDTH, H, 2)


CHANGES = [with_norm, with_gate, with_rotation, with_groups, with_all]
EVERY_CHANGE = pytest.mark.parametrize("change", CHANGES)


def changed_gpt(change, num_layers=N):
    """Build a GPT with something changed in it, in float64, filled with random numbers."""
    sizes = dict(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=num_layers, num_heads=H)
    model = GPT(GPTConfig(**sizes, d_model=WIDTH, dropout=0.0))
    change(model)
    return randomize(model)


def draw_ids(generator, *shape):
    """Draw ids of the whole vocabulary."""
    return torch.randint(VOCAB, shape, generator=generator)


@EVERY_CHANGE
def test_a_step_of_training_lowers_the_loss(generator, change):
    model, (ids, targets) = changed_gpt(change), draw_ids(generator, 2, B, T)
    optimizer = torch.optim.AdamW(param_groups(model, 0.1), lr=1e-4)
    _, before = model(ids, targets)
    before.backward()
    optimizer.step()
    assert model(ids, targets)[1] < before


@EVERY_CHANGE
def test_everything_that_is_put_in_learns(generator, change):
    model, (ids, targets) = changed_gpt(change), draw_ids(generator, 2, B, T)
    model(ids, targets)[1].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.abs().max() > 1e-8, f"{name} learns nothing"


@EVERY_CHANGE
def test_a_changed_gpt_stays_causal(generator, change):
    model, ids = changed_gpt(change), draw_ids(generator, B, T)
    logits, _ = model(ids)
    for place in range(1, T):
        other = ids.clone()
        other[:, place] = (ids[:, place] + 1) % VOCAB
        again, _ = model(other)
        assert_equal(again[:, :place], logits[:, :place])
        assert (again[:, place] != logits[:, place]).any()


@pytest.mark.parametrize("change", [with_rotation, with_all])
def test_turning_is_enough_to_tell_the_order(generator, change):
    model, ids = changed_gpt(change, num_layers=1), torch.tensor([[4, 7, 1, 2], [0, 5, 3, 9]])
    logits, _ = model(ids)
    swapped, _ = model(ids[:, [1, 0, 2, 3]])
    assert ((swapped - logits)[:, 2:].abs().amax(dim=-1) > 1e-6).all()


@pytest.mark.parametrize("change", [with_norm, with_gate, with_groups])
def test_a_cache_reads_a_changed_gpt_as_it_is(generator, change):
    model, ids = changed_gpt(change).eval(), draw_ids(generator, B, T)
    cache = GPTCache(model)
    by_token = [cache(ids[:, : place + 1]) for place in range(T)]
    assert_equal(torch.cat(by_token, dim=1), model(ids)[0])


def test_no_position_stands_before_the_first():
    with pytest.raises(ValueError, match="start=-1: positions begin at 0"):
        apply_rope(torch.ones(2, 4), -1)


@pytest.mark.parametrize("width", [1, 5])
def test_rms_norm_refuses_vectors_of_another_width(width):
    with pytest.raises(ValueError, match=rf"expected width 6, got \(2, {width}\)"):
        RMSNorm(6)(torch.ones(2, width))
