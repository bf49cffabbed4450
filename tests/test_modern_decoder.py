"""The parts of modern decoders agree with their formulas."""

import pytest
import torch
from dimensions import MAX_LEN, B, T
from hypothesis import given
from hypothesis import strategies as st
from parity import assert_equal, says, trace
from random_inputs import make_generator, normal, randomize
from reference import attention_by_loops
from torch import nn
from torch.nn import functional as F

from course_lib.modern_decoder import (
    GroupedQueryAttention,
    ModernConfig,
    ModernDecoder,
    ModernEngine,
    RMSNorm,
    SwiGLU,
    apply_rope,
    rope_angles,
)

H, D_K, D_FF, VOCAB, N = 6, 10, 7, 11, 3  # 6 heads can share 1, 2, 3 or 6 KV heads
WIDTH = H * D_K
SEEDS = st.integers(0, 2**31)


# --- RMSNorm


@pytest.mark.parametrize("how", [{}, dict(eps=1e-8), dict(eps=1e-2)], ids=str)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])  # for small vectors, eps determines the length
def test_rms_norm_agrees_with_torch(generator, how, scale):
    ours, theirs = RMSNorm(WIDTH, **how).double(), nn.RMSNorm(WIDTH, **(dict(eps=1e-5) | how))
    x = [scale * normal(generator, B, T, WIDTH)]
    assert_equal(ours(x[0]), theirs.double()(x[0]))  # new ones
    randomize(ours)
    randomize(theirs)
    assert_equal(trace(ours, x, ours), trace(theirs, x, theirs))


def test_rms_norm_keeps_zeros_and_rejects_vectors_of_another_width():
    assert (randomize(RMSNorm(6))(torch.zeros(T, 6).double()) == 0).all()
    for width in (1, 5):  # a width of 1 would broadcast silently
        with pytest.raises(ValueError, match=says("width 6", (2, width))):
            RMSNorm(6)(torch.ones(2, width))


def test_half_precision_keeps_large_numbers():
    norm, x = RMSNorm(4).half(), torch.tensor([300.0, -300, 200, 100]).half()
    expected = torch.tensor([1.251, -1.251, 0.834, 0.417]).half()  # 300² is infinite in float16
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=1e-3)
    model, ids = modern(tie_embeddings=False).float(), torch.tensor([[1, 2, 3]])
    model.embedding.weight.data *= 300 / model.embedding.weight.abs().max()
    exact = model(ids)[0]
    torch.testing.assert_close(model.half()(ids)[0].float(), exact, rtol=0, atol=0.01)


# --- SwiGLU


@pytest.mark.parametrize("shape", [(WIDTH,), (B, T, WIDTH)])
def test_swiglu_agrees_with_its_formula(generator, shape):
    layer, x = randomize(SwiGLU(WIDTH, D_FF)), [normal(generator, *shape)]

    def by_hand(x):
        up, gate, down = (part.weight for part in (layer.linear1, layer.gate, layer.linear2))
        return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)

    assert_equal(trace(layer, x, layer), trace(by_hand, x, layer))


# --- rotary position embedding (RoPE)


def exact_angles(length, d_k, base=10_000.0):
    """Compute position / base^(2i / d_k) number by number, in float64."""
    rows = [[t / base ** (2 * i / d_k) for i in range(d_k // 2)] for t in range(length)]
    return torch.tensor(rows, dtype=torch.float64)


def by_complex_numbers(x, angles):
    """Treat every pair as a complex number, and multiply it by e^(i · angle)."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())  # (..., T, d_k / 2)
    return torch.view_as_real(pairs * torch.polar(torch.ones(()).double(), angles)).flatten(-2)


@pytest.mark.parametrize("width", [2, 6, 18])
@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_angles_agree_with_the_formula(width, base):
    expected = exact_angles(300, width, base)
    torch.testing.assert_close(rope_angles(300, width, base).double(), expected, rtol=1e-6, atol=0)


@given(seed=SEEDS, width=st.sampled_from([2, 4, 6, 18]))
def test_rotation_is_multiplication_of_complex_numbers(seed, width):
    x, angles = [normal(make_generator(seed), B, H, T, width)], exact_angles(T, width)
    ours = trace(lambda x: apply_rope(x, angles), x)
    assert_equal(ours, trace(lambda x: by_complex_numbers(x, angles), x))


# --- grouped-query attention


@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, H])
@pytest.mark.parametrize("rotated", [True, False])
def test_grouped_attention_agrees_with_loops(generator, num_kv_heads, rotated):
    attention = randomize(GroupedQueryAttention(WIDTH, H, num_kv_heads))
    angles = exact_angles(T, D_K) if rotated else None
    causal = torch.ones(T, T, dtype=torch.bool).tril()

    def by_hand(x):
        parts = (F.linear(x, w.weight) for w in (attention.w_q, attention.w_k, attention.w_v))
        q, k, v = (part.unflatten(-1, (-1, D_K)).transpose(1, 2) for part in parts)
        if rotated:
            q, k = by_complex_numbers(q, angles), by_complex_numbers(k, angles)
        shared = [head // (H // num_kv_heads) for head in range(H)]
        heads, _ = attention_by_loops(q, k[:, shared], v[:, shared], causal)
        joined = torch.cat([heads[:, head] for head in range(H)], dim=-1)
        return F.linear(joined, attention.w_o.weight)

    x = [normal(generator, B, T, WIDTH)]
    ours = trace(lambda x: attention(x, angles), x, attention)
    assert_equal(ours, trace(by_hand, x, attention))


# --- the model


def modern(**changes):
    sizes = dict(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=N, num_heads=H, num_kv_heads=2)
    config = ModernConfig(**sizes, d_model=WIDTH, d_ff=D_FF, **changes)
    return randomize(ModernDecoder(config)).eval()


@pytest.mark.parametrize(
    "chunks", [(1,) * MAX_LEN, (MAX_LEN,), (2,) * 4 + (1,), (3, 2, 4)], ids=str
)
def test_an_engine_gives_the_models_logits_however_the_text_is_chunked(generator, chunks):
    model, ids = modern(), torch.randint(VOCAB, (B, MAX_LEN), generator=generator)
    engine = ModernEngine(model, MAX_LEN)
    parts = [engine.step(new, all_positions=True) for new in ids.split(chunks, dim=1)]
    assert_equal(torch.cat(parts, dim=1), model(ids)[0].detach())
    with pytest.raises(ValueError, match=says(f"{MAX_LEN + 1} tokens", f"max_len={MAX_LEN}")):
        engine.step(ids[:, :1])
    engine.truncate(2)
    engine.reorder(torch.tensor([1, 0]))
    assert_equal(engine.step(ids.flip(0)[:, 2:4]), model(ids.flip(0)[:, :4])[0][:, -1].detach())


def test_the_angles_keep_32_bits_in_a_16_bit_model(monkeypatch):
    model = modern().float()
    angles = model.angles.clone()
    for convert in (model.bfloat16, model.half, lambda: model.to("cpu", torch.bfloat16)):
        assert convert().angles.dtype == torch.float32
        assert model.angles.equal(angles) and model.embedding.weight.dtype != torch.float32
    assert model(torch.tensor([[1, 2]]))[0].dtype == torch.bfloat16
    assert modern().angles.dtype == torch.float64
    monkeypatch.setattr(torch, "get_default_dtype", lambda: torch.bfloat16)
    assert rope_angles(300, 2)[299].tolist() == [299]  # bfloat16 would round it to 300


def test_the_defaults_are_smollm2_135ms():
    with torch.device("meta"):
        model = ModernDecoder(ModernConfig())
    assert sum(p.numel() for p in model.parameters()) == 134_515_008


@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float32, 1e-6), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)]
)
def test_rope_keeps_every_dtype(generator, dtype, atol):
    # 3e-2 and 4e-3: two products of numbers up to 4, with 8 and 11 binary digits
    x = normal(generator, B, T, D_K).clamp(-4, 4).to(dtype)
    angles = rope_angles(T, D_K)
    expected = apply_rope(x.double(), angles.double()).to(dtype)
    torch.testing.assert_close(apply_rope(x, angles), expected, rtol=0.0, atol=atol)
