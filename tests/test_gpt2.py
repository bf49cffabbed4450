"""GPT-2's weights, under its names and transposed as there, make a model that says the same."""

import io
import math
import re

import pytest
import torch
from reference import B, H, T, assert_equal, make_generator, normal, randomize, says
from torch.nn import functional as F

from course_lib.gpt import GPT, GPTConfig
from course_lib.interop.gpt2 import from_gpt2, to_gpt2

N, VOCAB, MAX_LEN, D_MODEL = 2, 11, 9, 18
CONV1D = pytest.mark.parametrize("conv1d", [True, False])
BIASES = pytest.mark.parametrize("bias", [True, False])
PREFIXES = ["", "transformer.", "_orig_mod.transformer.", "_orig_mod."]


def their_shapes(conv1d, bias=True, num_layers=N, d_model=D_MODEL):
    """List the names and shapes that GPT-2 (Conv1D: in, out) or nanoGPT (out, in) keeps."""
    d, shapes = d_model, {"wte.weight": (VOCAB, d_model), "wpe.weight": (MAX_LEN, d_model)}
    matrices = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d)}
    matrices |= {"mlp.c_fc": (d, 4 * d), "mlp.c_proj": (4 * d, d)}
    for n in range(num_layers):
        for norm in ("ln_1", "ln_2"):
            shapes[f"h.{n}.{norm}.weight"] = shapes[f"h.{n}.{norm}.bias"] = (d,)
        for name, (d_in, d_out) in matrices.items():
            shapes[f"h.{n}.{name}.weight"] = (d_in, d_out) if conv1d else (d_out, d_in)
            shapes[f"h.{n}.{name}.bias"] = (d_out,)
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (d,)
    return {name: shape for name, shape in shapes.items() if bias or not name.endswith("bias")}


def their_weights(conv1d=True, bias=True, prefix="transformer.", seed=0, **sizes):
    """Draw such weights, in float32; gains vary around 1."""
    generator, weights = make_generator(seed), {}
    for name, shape in their_shapes(conv1d, bias, **sizes).items():
        value = 0.3 * normal(generator, *shape, dtype=torch.float32)
        weights[prefix + name] = value + float("ln_" in name and name.endswith("weight"))
    return weights


def gelu_by_hand(x, by_tanh):
    """Write GELU by the normal distribution, or the approximation that GPT-2 was trained with."""
    if by_tanh:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def gpt2_by_hand(weights, ids, by_tanh=True, num_layers=N, num_heads=H):
    """Run GPT-2 forwards from a dictionary of Conv1D weights, with or without biases."""
    w = {name: value.double() for name, value in weights.items()}
    length, d_model = ids.size(1), w["wte.weight"].size(1)

    def linear(name, x):
        return torch.einsum("btd,de->bte", x, w[f"{name}.weight"]) + w.get(f"{name}.bias", 0.0)

    def norm(name, x):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
        standard = (x - mean) / (variance + 1e-5).sqrt()
        return standard * w[f"{name}.weight"] + w.get(f"{name}.bias", 0.0)

    x = w["wte.weight"][ids] + w["wpe.weight"][:length]
    for n in range(num_layers):
        parts = linear(f"h.{n}.attn.c_attn", norm(f"h.{n}.ln_1", x)).split(d_model, dim=-1)
        q, k, v = (part.view(*ids.shape, num_heads, -1) for part in parts)  # (B, T, H, d_k)
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(d_model / num_heads)
        scores = scores + torch.full((length, length), -math.inf).triu(1)
        heads = torch.einsum("bhts,bshd->bthd", scores.softmax(dim=-1), v).flatten(2)
        x = x + linear(f"h.{n}.attn.c_proj", heads)
        features = linear(f"h.{n}.mlp.c_fc", norm(f"h.{n}.ln_2", x))
        x = x + linear(f"h.{n}.mlp.c_proj", gelu_by_hand(features, by_tanh))
    return norm("ln_f", x) @ w["wte.weight"].T


def transposed(weights):
    """Transpose the matrices of linear layers into those of Conv1D, or back."""
    kinds = r".*\.(c_attn|c_proj|c_fc)\.weight"
    return {
        name: value.T.contiguous() if re.fullmatch(kinds, name) else value
        for name, value in weights.items()
    }


# --- parity


@BIASES
@CONV1D
@pytest.mark.parametrize("length", [1, T, MAX_LEN])
def test_a_converted_model_says_what_gpt_2_says(generator, conv1d, bias, length):
    weights = their_weights(conv1d, bias, prefix="")
    ids = torch.randint(VOCAB, (B, length), generator=generator)
    by_hand = gpt2_by_hand(weights if conv1d else transposed(weights), ids, by_tanh=conv1d)
    assert_equal(from_gpt2(weights, H).double()(ids)[0], by_hand)


@pytest.mark.parametrize("num_heads", [1, 2, 9])
def test_the_heads_are_as_many_as_asked(generator, num_heads):
    weights, ids = their_weights(prefix=""), torch.randint(VOCAB, (B, T), generator=generator)
    model = from_gpt2(weights, num_heads)
    assert model.config.num_heads == num_heads
    assert_equal(model.double()(ids)[0], gpt2_by_hand(weights, ids, num_heads=num_heads))


def test_gpt_2_learns_the_same(generator):
    weights, ids = their_weights(prefix=""), torch.randint(VOCAB, (B, T), generator=generator)
    model = from_gpt2(weights, H).double()
    theirs = {name: value.double().requires_grad_() for name, value in weights.items()}
    targets = torch.randint(VOCAB, (B, T), generator=generator)
    model(ids, targets)[1].backward()
    F.cross_entropy(gpt2_by_hand(theirs, ids).flatten(0, 1), targets.flatten()).backward()
    for parameter in model.parameters():
        parameter.data = parameter.grad
    ours = to_gpt2(model)
    for name, value in theirs.items():
        assert_equal(ours[f"transformer.{name}"], value.grad)


# --- round trips


@BIASES
@CONV1D
@pytest.mark.parametrize("prefix", PREFIXES)
def test_weights_survive_the_round_trip(conv1d, bias, prefix):
    weights = their_weights(conv1d, bias, prefix)
    back = to_gpt2(from_gpt2(weights, H), conv1d=conv1d)
    expected = {f"transformer.{name.removeprefix(prefix)}": w for name, w in weights.items()}
    expected["lm_head.weight"] = expected["transformer.wte.weight"]
    assert back.keys() == expected.keys()
    torch.testing.assert_close(back, expected, rtol=0, atol=0)


@BIASES
@CONV1D
def test_a_model_survives_the_round_trip(conv1d, bias):
    config = GPTConfig(
        vocab_size=VOCAB, max_len=MAX_LEN, num_layers=N, num_heads=H, d_model=D_MODEL, bias=bias
    )
    model = randomize(GPT(config)).float()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = to_gpt2(model, conv1d=conv1d)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    copy = from_gpt2(torch.load(buffer, weights_only=True), H)
    torch.testing.assert_close(copy.state_dict(), before, rtol=0, atol=0)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_the_other_way_round_is_each_matrix_transposed():
    model = from_gpt2(their_weights(), H)
    expected = transposed(to_gpt2(model))
    torch.testing.assert_close(to_gpt2(model, conv1d=False), expected, rtol=0, atol=0)


@CONV1D
def test_more_than_ten_layers_keep_their_order(conv1d):
    weights = their_weights(conv1d, num_layers=12, d_model=2)
    names = list(weights)
    mixed = {name: weights[name] for name in names[::-3] + names[::-1]}  # in any order
    masks = {f"transformer.h.{n}.attn.bias": torch.ones(1, 1, 9, 9) for n in range(12)}
    model = from_gpt2(mixed | masks, 1)
    assert len(model.layers) == 12
    for n, layer in enumerate(model.layers):
        assert layer.add_norm1.norm.weight.equal(weights[f"transformer.h.{n}.ln_1.weight"])
    back = to_gpt2(model, conv1d=conv1d)
    del back["lm_head.weight"]
    torch.testing.assert_close(back, weights, rtol=0, atol=0)


# --- what else a file may hold, and what a model is then


@CONV1D
@pytest.mark.parametrize("prefix", PREFIXES)
def test_masks_and_the_embedding_once_more_are_not_read(conv1d, prefix):
    weights = their_weights(conv1d, prefix=prefix)
    more = dict(weights)
    for n in range(N):
        more[f"{prefix}h.{n}.attn.bias"] = torch.ones(1, 1, MAX_LEN, MAX_LEN).tril()
        more[f"{prefix}h.{n}.attn.masked_bias"] = torch.tensor(-1e4)
    more[prefix.removesuffix("transformer.") + "lm_head.weight"] = torch.zeros(VOCAB, D_MODEL)
    expected = from_gpt2(weights, H).state_dict()
    torch.testing.assert_close(from_gpt2(more, H).state_dict(), expected, rtol=0, atol=0)


@BIASES
def test_the_configuration_is_read_off_the_weights(bias):
    model = from_gpt2(their_weights(bias=bias), H)
    sizes = dict(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=N, num_heads=H, d_model=D_MODEL)
    assert model.config == GPTConfig(**sizes, dropout=0.0, bias=bias)
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
    assert model.output.weight is model.embedding.weight


def test_nothing_is_shared_with_what_was_given_or_returned():
    weights = their_weights()
    model = from_gpt2(weights, H)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    state = to_gpt2(model)
    assert not any(value.requires_grad for value in state.values())
    for value in (*weights.values(), *state.values()):
        value.add_(1.0)
    torch.testing.assert_close(model.state_dict(), kept, rtol=0, atol=0)
    for name, value in to_gpt2(model).items():
        assert not value.equal(state[name])


# --- errors


@BIASES
@CONV1D
def test_every_weight_that_is_missing_is_named(conv1d, bias):
    for name in their_shapes(conv1d, bias):
        weights = their_weights(conv1d, bias)
        del weights[f"transformer.{name}"]
        words = name if name != "ln_f.bias" else "h.0.attn.c_attn.bias"  # no bias is known then
        with pytest.raises(ValueError, match=says(words, "GPT-2")):
            from_gpt2(weights, H)


@pytest.mark.parametrize(
    "name",
    [
        "wte.bias",
        "h.1.attn.biases",
        "attn.bias",
        "lm_head.bias",
        "transformer.wte.weight",
    ],
)
def test_a_weight_with_an_unknown_name_is_named(name):
    weights = their_weights() | {f"transformer.{name}": torch.zeros(D_MODEL)}
    with pytest.raises(ValueError, match=says("unknown", repr(name), "GPT-2")):
        from_gpt2(weights, H)


def test_one_weight_of_one_more_layer_is_not_enough():
    weights = their_weights() | {f"transformer.h.{N}.ln_1.weight": torch.ones(D_MODEL)}
    with pytest.raises(ValueError, match=says("missing", f"h.{N}.attn.c_attn.weight")):
        from_gpt2(weights, H)


@pytest.mark.parametrize("weights", [{}, {"linear.weight": torch.ones(3, 3)}, "one prefix more"])
def test_weights_of_something_else_are_refused(weights):
    if weights == "one prefix more":
        weights = their_weights(prefix="model.transformer.")
    with pytest.raises(ValueError, match=says("wte.weight", "GPT-2")):
        from_gpt2(weights, H)


@BIASES
@CONV1D
def test_every_weight_of_another_shape_is_named_with_both_shapes_its_own_way_round(conv1d, bias):
    for name, shape in their_shapes(conv1d, bias).items():
        others = [(*shape[:-1], shape[-1] + 1), (1, *shape) if len(shape) == 1 else shape[::-1]]
        if name.startswith(("wte", "wpe")):
            continue  # other sizes, see below
        if name == "h.0.attn.c_attn.weight" or others[1] == shape:
            others.pop()  # the one tells which way round all are, the other is square
        for other in others:
            weights = their_weights(conv1d, bias) | {f"transformer.{name}": torch.zeros(other)}
            with pytest.raises(ValueError, match=says(f"{name} ", other, shape)):
                from_gpt2(weights, H)


@CONV1D
def test_tables_of_another_width_are_named(conv1d):
    weights = their_weights(conv1d)
    weights["transformer.wpe.weight"] = torch.zeros(MAX_LEN, D_MODEL + 1)
    with pytest.raises(ValueError, match=says("wpe.weight", (MAX_LEN, D_MODEL + 1))):
        from_gpt2(weights, H)
    weights = their_weights(conv1d) | {"transformer.wte.weight": torch.zeros(VOCAB, D_MODEL + H)}
    with pytest.raises(ValueError, match=says(D_MODEL, D_MODEL + H)):
        from_gpt2(weights, H)


@pytest.mark.parametrize("num_heads", [0, 4])
def test_heads_that_do_not_divide_the_width_are_named(num_heads):
    with pytest.raises(ValueError, match=says(f"num_heads={num_heads}")):
        from_gpt2(their_weights(), num_heads)
