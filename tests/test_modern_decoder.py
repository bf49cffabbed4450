"""The parts of later models are what their formulas say, and fit where the old ones were."""

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
from course_lib.gpt import GPT, CausalSelfAttention, GPTConfig
from course_lib.kv_cache import KVCache
from course_lib.modern_decoder import (
    GroupedQueryAttention,
    RMSNorm,
    RotaryAttention,
    SwiGLU,
    apply_rope,
)
from course_lib.positions import sinusoidal_encoding

H, D_K, D_FF, VOCAB, N = 6, 10, 7, 11, 3  # 6 heads can share 1, 2, 3 or 6 KV heads
WIDTH = H * D_K
SEEDS = st.integers(0, 2**31)
ROWS = dict(rtol=0.0, atol=1e-6)  # the table of chapter 03 is kept in float32
SCORES = dict(rtol=0.0, atol=2e-5)  # sums of products of such numbers


class LaterAttention(GroupedQueryAttention):
    """Share keys and rotate what is compared, as chapter 19 does at its end."""

    def project(self, x):
        """Rotate queries and keys once they are given to their heads."""
        q, k, v = super().project(x)
        return apply_rope(q), apply_rope(k), v


# --- RMSNorm


@pytest.mark.parametrize("how", [{}, dict(eps=1e-8), dict(eps=1e-2)], ids=str)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])  # of small vectors eps makes the length
def test_rms_norm_agrees_with_torch(generator, how, scale):
    ours, theirs = RMSNorm(WIDTH, **how).double(), nn.RMSNorm(WIDTH, **(dict(eps=1e-5) | how))
    x = [scale * normal(generator, B, T, WIDTH)]
    assert_equal(ours(x[0]), theirs.double()(x[0]))  # new ones
    randomize(ours)
    randomize(theirs)
    assert_equal(trace(ours, x, ours), trace(theirs, x, theirs))


def test_rms_norm_worked_out_by_hand():
    # 1, 7: mean square (1 + 49) / 2 = 25; gains 2 and 3
    norm = RMSNorm(2, eps=0.0).double()
    norm.weight.data.copy_(torch.tensor([2.0, 3.0]))
    assert norm(torch.tensor([1.0, 7.0]).double()).tolist() == pytest.approx([2 / 5, 21 / 5])


@given(seed=SEEDS, scale=st.floats(0.1, 10))
def test_rms_norm_is_layer_norm_where_the_mean_is_0(seed, scale):
    x = scale * normal(make_generator(seed), B, T, WIDTH)
    centred = x - x.mean(dim=-1, keepdim=True)
    ours, theirs = randomize(RMSNorm(WIDTH)), randomize(nn.LayerNorm(WIDTH, bias=False))
    assert_equal(ours(centred), theirs(centred))


def test_rms_norm_keeps_zeros_and_refuses_vectors_of_another_width():
    assert (randomize(RMSNorm(6))(torch.zeros(T, 6).double()) == 0).all()
    for width in (1, 5):  # a width of 1 would broadcast in silence
        with pytest.raises(ValueError, match=says("width 6", (2, width))):
            RMSNorm(6)(torch.ones(2, width))


# --- SwiGLU


@pytest.mark.parametrize("shape", [(WIDTH,), (B, T, WIDTH)])
def test_swiglu_agrees_with_its_formula(generator, shape):
    layer, x = randomize(SwiGLU(WIDTH, D_FF)), [normal(generator, *shape)]

    def by_hand(x):
        up, gate, down = (part.weight for part in (layer.linear1, layer.gate, layer.linear2))
        return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    assert_equal(trace(layer, x, layer), trace(by_hand, x, layer))


def test_two_thirds_as_wide_it_costs_what_the_matrices_of_a_feed_forward_cost():
    gated, old = SwiGLU(64, 128), FeedForward(64, 192)
    matrices = [p.numel() for p in old.parameters() if p.dim() == 2]
    assert sum(p.numel() for p in gated.parameters()) == sum(matrices)


# --- rotary position embedding (RoPE)


def by_complex_numbers(x, start=0, sine_and_cosine=None):
    """Read every pair as a complex number, and multiply it by e^(i · position · frequency)."""
    length, d_k = x.shape[-2:]
    positions = torch.arange(start, start + length, dtype=torch.float64)
    frequencies = 10000 ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    rotations = torch.polar(torch.ones(()).double(), torch.outer(positions, frequencies))
    if sine_and_cosine is not None:
        rotations = torch.complex(sine_and_cosine[:, 1::2], sine_and_cosine[:, 0::2])
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())  # (..., T, d_k / 2)
    return torch.view_as_real(pairs * rotations).flatten(-2)  # (..., T, d_k)


@given(seed=SEEDS, start=st.integers(0, 3000), width=st.sampled_from([2, 4, 6, 18]))
def test_to_rotate_is_to_multiply_complex_numbers(seed, start, width):
    x = [normal(make_generator(seed), B, T, width)]
    ours = trace(lambda x: apply_rope(x, start), x)
    theirs = trace(lambda x: by_complex_numbers(x, start), x)
    torch.testing.assert_close(ours, theirs, **ROWS)


DISTANCES = st.integers(0, 200)


@given(seed=SEEDS, start=DISTANCES, distance=DISTANCES, shift=st.integers(1, 500))
def test_a_score_depends_on_the_distance_alone(seed, start, distance, shift):
    q, k = normal(make_generator(seed), 2, 1, D_K)
    here = apply_rope(q, start + distance) @ apply_rope(k, start).T
    there = apply_rope(q, start + shift + distance) @ apply_rope(k, start + shift).T
    torch.testing.assert_close(here, there, **SCORES)


@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float32, 1e-6), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)]
)
def test_numbers_of_each_kind_stay_of_that_kind(generator, dtype, atol):
    # 3e-2 and 4e-3: two products of numbers up to 4, with 8 and 11 binary digits
    x = normal(generator, B, T, D_K).clamp(-4, 4)
    expected = apply_rope(x.to(dtype).double(), 2).to(dtype)
    torch.testing.assert_close(apply_rope(x.to(dtype), 2), expected, rtol=0.0, atol=atol)


def test_what_lies_on_another_device_stays_there():
    assert apply_rope(torch.zeros(B, T, D_K, device="meta")).device.type == "meta"


def test_odd_widths_and_positions_before_the_first_are_refused():
    with pytest.raises(ValueError, match=says("odd", 5)):
        apply_rope(torch.zeros(B, T, 5))
    with pytest.raises(ValueError, match="start=-1: positions begin at 0"):
        apply_rope(torch.ones(2, 4), -1)


# --- attention


@pytest.mark.parametrize("length", [1, T])
def test_rotary_attention_is_attention_with_rotated_queries_and_keys(generator, length):
    attention, x = randomize(RotaryAttention(WIDTH, H)), [normal(generator, B, length, WIDTH)]
    table = sinusoidal_encoding(length, D_K).double()
    causal = torch.ones(length, length, dtype=torch.bool).tril()

    def by_hand(x):
        q, k, v = F.linear(x, attention.w_qkv.weight, attention.w_qkv.bias).chunk(3, dim=-1)
        q, k, v = (y.unflatten(-1, (H, D_K)).transpose(1, 2) for y in (q, k, v))
        q, k = (by_complex_numbers(y, 0, table) for y in (q, k))
        heads, _ = attention_by_loops(q, k, v, causal)
        joined = torch.cat([heads[:, head] for head in range(H)], dim=-1)
        return F.linear(joined, attention.w_o.weight, attention.w_o.bias)

    assert_equal(trace(attention, x, attention), trace(by_hand, x, attention))


def test_with_a_kv_head_for_each_head_it_is_the_attention_of_chapter_18(generator):
    attention = randomize(GroupedQueryAttention(WIDTH, H, H))
    same, x = CausalSelfAttention(WIDTH, H).double(), [normal(generator, B, T, WIDTH)]
    same.load_state_dict(attention.state_dict())
    assert_equal(trace(attention, x, attention), trace(same, x, same))


@pytest.mark.parametrize("num_groups", [1, 2, 3, H])
def test_grouped_attention_agrees_with_the_kernel_of_torch(generator, num_groups):
    attention = randomize(GroupedQueryAttention(WIDTH, H, num_groups))

    def by_torch(x):
        whole = F.linear(x, attention.w_qkv.weight, attention.w_qkv.bias)
        parts = whole.split([H * D_K, num_groups * D_K, num_groups * D_K], dim=-1)
        parts = [part.unflatten(-1, (-1, D_K)).transpose(1, 2) for part in parts]
        heads = F.scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
        joined = heads.transpose(1, 2).reshape(x.shape)
        return F.linear(joined, attention.w_o.weight, attention.w_o.bias)

    x = [normal(generator, B, T, WIDTH)]
    assert_equal(trace(attention, x, attention), trace(by_torch, x, attention))


@pytest.mark.parametrize("num_groups", [0, -1, 4, 2 * H])
def test_kv_heads_that_cannot_be_shared_evenly_are_named(num_groups):
    with pytest.raises(ValueError, match=says(H, num_groups)):
        GroupedQueryAttention(WIDTH, H, num_groups)


@pytest.mark.parametrize(
    "build",
    [CausalSelfAttention, RotaryAttention, lambda *how: GroupedQueryAttention(*how[:2], 2, how[2])],
)
def test_a_quarter_of_the_weights_is_dropped_and_the_rest_makes_up_for_it(build):
    # 18,000 draws: the fraction is known to 0.003; one token each, so one weight of 1 a head
    attention = randomize(build(WIDTH, H, 0.25))
    attention.w_qkv.weight.data.zero_()
    attention.w_qkv.bias.data.fill_(1.0)
    attention.w_o.weight.data.copy_(torch.eye(WIDTH))
    attention.w_o.bias.data.zero_()
    with seeded():
        heads = attention(torch.zeros(3000, 1, WIDTH, dtype=torch.float64)).view(3000, H, D_K)
    assert (heads == heads[..., :1]).all()  # a weight is dropped as a whole
    assert_equal(heads[heads != 0], torch.full_like(heads[heads != 0], 4 / 3))
    assert (heads == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)


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


def with_groups(model, kind=GroupedQueryAttention):
    """Let the heads share two KV heads."""
    for layer in model.layers:
        layer.self_attn = kind(WIDTH, H, 2)


def with_all(model):
    """Put in all, and rotate queries and keys in place of adding positions."""
    with_norm(model)
    with_gate(model)
    with_groups(model, LaterAttention)
    model.positions = nn.Identity()


def changed_gpt(change):
    """Build a GPT with something changed in it, in float64, filled with random numbers."""
    sizes = dict(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=N, num_heads=H, d_model=WIDTH)
    model = GPT(GPTConfig(**sizes, dropout=0.0))
    change(model)
    return randomize(model)


def test_with_all_parts_a_gpt_learns_and_stays_causal(generator):
    model, (ids, targets) = (
        changed_gpt(with_all),
        torch.randint(VOCAB, (2, B, T), generator=generator),
    )
    logits, loss = model(ids, targets)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.abs().max() > 1e-8, f"{name} learns nothing"
    for position in range(T):
        other = ids.clone()
        other[:, position] = (ids[:, position] + 1) % VOCAB
        change = (model(other)[0] - logits).abs().amax(dim=-1)  # (B, T)
        assert (change[:, :position] < 1e-10).all() and (change[:, position:] > 1e-6).all()


@pytest.mark.parametrize("change", [with_norm, with_gate, with_groups])
def test_the_kv_cache_reads_a_changed_gpt_as_it_is(generator, change):
    model, ids = changed_gpt(change).eval(), torch.randint(VOCAB, (B, T), generator=generator)
    cache = KVCache(len(model.layers), T)
    by_token = [model(ids[:, [position]], cache=cache)[0] for position in range(T)]
    assert_equal(torch.cat(by_token, dim=1), model(ids)[0])
