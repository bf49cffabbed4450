"""GPT agrees with torch's stack, and its engine generates the same tokens as the model."""

import math

import pytest
import torch
from dimensions import D_MODEL, MAX_LEN, B, H, T
from parity import assert_equal, assert_parity, says
from random_inputs import make_generator, randomize, seeded
from torch import nn
from torch.nn import functional as F

from course_lib.decoding import greedy_decode
from course_lib.gpt import (
    GPT,
    GPTConfig,
    GPTEngine,
    generation_engine,
    initialize_gpt,
    next_token_loss,
    param_groups,
    sample,
    text_engine,
)
from course_lib.interop import load_from_torch
from course_lib.modern_decoder import ModernConfig, ModernDecoder, ModernEngine
from course_lib.support.engines import RecomputingEngine

N, VOCAB = 2, 11
BIASES = pytest.mark.parametrize("bias", [True, False])


def tiny_config(**changes):
    """Return a configuration in which all sizes differ, without dropout."""
    sizes = dict(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=N, num_heads=H, d_model=D_MODEL)
    return GPTConfig(**(sizes | dict(dropout=0.0) | changes))


def tiny(**changes):
    """Build the model of a tiny configuration, in float64, filled with random numbers."""
    return randomize(GPT(tiny_config(**changes)))


def draw_ids(generator, *shape):
    return torch.randint(VOCAB, shape, generator=generator)


def torch_layer(d_model=D_MODEL, num_heads=H, bias=True):
    """Build torch's layer with GPT-2's choices."""
    how = dict(activation="gelu", norm_first=True, batch_first=True, bias=bias)
    return nn.TransformerEncoderLayer(d_model, num_heads, 4 * d_model, dropout=0.0, **how)


def future(length):
    """Return torch's causal mask: True = blocked."""
    return torch.ones(length, length, dtype=torch.bool).triu(1)


# --- parity: the model

SIZES = {
    "tiny": {},
    "one of all": dict(num_layers=1, num_heads=1, d_model=5, vocab_size=3),
    "three layers": dict(num_layers=3, num_heads=2, d_model=8),
}


@pytest.mark.filterwarnings("error")
@BIASES
@pytest.mark.parametrize("length", [1, T, MAX_LEN])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_logits_loss_and_every_gradient_agree_with_torch(generator, sizes, length, bias):
    ours = tiny(**sizes, bias=bias)
    c = ours.config
    layer = torch_layer(c.d_model, c.num_heads, bias)
    last = nn.LayerNorm(c.d_model, bias=bias)
    theirs = nn.TransformerEncoder(layer, c.num_layers, last, enable_nested_tensor=False)
    load_from_torch(ours, randomize(theirs, seed=1))
    ids, targets = torch.randint(c.vocab_size, (2, B, length), generator=generator)

    def run_theirs(table, out_table, positions):
        x = F.embedding(ids, table) + positions[:length]
        logits = theirs(x, mask=future(length)) @ out_table.T
        right = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))
        return logits, -right.mean().view(1)

    def run_ours():
        logits, loss = ours(ids, targets)
        assert loss.shape == ()
        return logits, loss.view(1)

    table = ours.embedding.weight  # one matrix is used twice
    tables = [table, table, ours.positions.weight]
    assert_parity(ours, theirs, run_ours, run_theirs, tables)


# --- sizes, sharing and initialization


def test_initialization_draws_each_matrix_once_in_the_order_of_the_parameters():
    with seeded():
        model = GPT(tiny_config())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(3.0)
    with seeded():
        initialize_gpt(model, 0.02, 9)
    with seeded():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                assert (parameter == (0.0 if name.endswith("bias") else 3.0)).all(), name
            else:
                small = name.endswith(("w_o.weight", "linear2.weight"))
                std = 0.02 / math.sqrt(2 * 9) if small else 0.02
                assert torch.equal(parameter, torch.empty_like(parameter).normal_(0, std)), name


# --- weight decay


def test_only_matrices_have_weight_decay():
    model = nn.Module()
    shapes = [(), (3,), (1,), (2, 3), (1, 1), (2, 3, 4)]
    model.parts = nn.ParameterList(nn.Parameter(torch.ones(shape)) for shape in shapes)
    matrices, rest = param_groups(model, 0.3)
    assert (matrices["weight_decay"], rest["weight_decay"]) == (0.3, 0.0)
    assert [tuple(p.shape) for p in matrices["params"]] == shapes[3:]
    assert [tuple(p.shape) for p in rest["params"]] == shapes[:3]
    with pytest.raises(ValueError, match=says("weight_decay=-0.1")):
        param_groups(model, -0.1)


# --- the engine


@BIASES
@pytest.mark.parametrize("size", range(1, MAX_LEN + 1))
def test_the_engine_gives_the_models_logits_however_the_text_is_split(generator, size, bias):
    model, ids = tiny(bias=bias).eval(), draw_ids(generator, B, MAX_LEN)
    expected = model(ids)[0]
    every, last = GPTEngine(model, MAX_LEN), GPTEngine(model, MAX_LEN)
    parts = ids.split(size, dim=1)
    assert_equal(torch.cat([every.step(p, all_positions=True) for p in parts], dim=1), expected)
    for part in parts:
        logits = last.step(part)
        assert not logits.requires_grad
        assert_equal(logits, expected[:, last.length - 1])
    assert every.length == last.length == MAX_LEN


# --- which engine


def test_the_engine_depends_on_the_class_the_prompt_and_the_switch():
    gpt = tiny().eval()
    sizes = dict(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=N, num_heads=2, d_model=8)
    modern = ModernDecoder(ModernConfig(**sizes, num_kv_heads=1, d_ff=5)).eval()
    prompt = torch.zeros(B, 4, dtype=torch.long)
    assert type(text_engine(gpt, 5)) is GPTEngine and type(text_engine(modern, 5)) is ModernEngine
    assert type(generation_engine(gpt, prompt, 5)) is GPTEngine
    assert type(generation_engine(modern, prompt, 5)) is ModernEngine
    assert type(generation_engine(gpt, prompt, 5, use_cache=False)) is RecomputingEngine
    assert type(generation_engine(gpt, prompt, 3)) is RecomputingEngine  # exceeds the window


def test_a_subclass_and_a_model_with_a_foreign_part_recompute():
    models = [type("Sharper", (GPT,), {})(tiny_config()), tiny(), tiny()]
    models[1].set_submodule("layers.0.self_attn", nn.Identity())
    models[2].set_submodule("norm", type("Mine", (nn.LayerNorm,), {})(D_MODEL))
    for model in models:
        engine = generation_engine(model, torch.zeros(B, 3, dtype=torch.long), 5)
        assert type(engine) is RecomputingEngine


# --- sampling


@pytest.mark.parametrize("length", [1, MAX_LEN - 2, MAX_LEN + 3])
def test_with_one_choice_left_the_most_likely_token_is_written(generator, length):
    model, ids = tiny().eval(), draw_ids(generator, 4, length)
    expected = ids
    for _ in range(14):
        last = model(expected[:, -MAX_LEN:])[0][:, -1]  # (B, V)
        expected = torch.cat([expected, last.argmax(dim=-1, keepdim=True)], dim=1)
    for how in (dict(top_k=1), dict(temperature=1e-6), dict(top_p=1e-9)):
        assert torch.equal(sample(model, ids, 14, **how), expected)
    assert len(set(expected[:, length:].flatten().tolist())) > 3
    assert torch.equal(sample(model, ids, 0), ids)


@pytest.mark.parametrize("length", [1, MAX_LEN - 1, MAX_LEN, MAX_LEN + 1])
def test_the_generator_decides_the_text_with_and_without_a_cache(generator, length):
    model, ids, state = tiny().eval(), draw_ids(generator, 3, length), torch.get_rng_state()
    how = dict(temperature=1.2, top_k=8, top_p=0.95)
    cached, again, other = (
        sample(model, ids, 25, **how, generator=make_generator(seed), use_cache=use_cache)
        for seed, use_cache in ((1, True), (1, False), (2, True))
    )
    assert torch.equal(cached, again) and not torch.equal(cached, other)
    assert torch.get_rng_state().equal(state)
    assert cached.shape == (3, length + 25) and torch.equal(cached[:, :length], ids)
    assert len({tuple(row) for row in cached[:, length:].tolist()}) == 3  # rows differ


@pytest.mark.parametrize("training", [True, False])
def test_the_model_generates_in_eval_mode_and_its_mode_is_restored_even_after_an_error(training):
    model, ids, seen = tiny(dropout=0.5).train(training), torch.tensor([[4, 5]]), []

    compute = model.norm.forward

    def listen_and_fail_later(x):
        seen.append((model.norm.training, x.requires_grad))
        if len(seen) > 3:
            raise ArithmeticError
        return compute(x)

    model.norm.forward = listen_and_fail_later
    sample(model, ids, 3)
    assert {module.training for module in model.modules()} == {training}
    with pytest.raises(ArithmeticError):
        sample(model, ids, 1)
    assert seen == [(False, False)] * 4
    assert {module.training for module in model.modules()} == {training}
    assert torch.is_grad_enabled()


def test_the_loss_of_a_long_text_in_half_precision_is_finite():
    loss = next_token_loss(torch.zeros(1, 20_000, 64).half(), torch.full((1, 20_000), 5))
    assert loss.item() == pytest.approx(math.log(64), rel=1e-4)


def test_a_wrapped_model_is_refused_by_name():
    config = GPTConfig(vocab_size=5, max_len=4, num_layers=1, num_heads=1, d_model=4)
    for call in (sample, lambda model, *_: greedy_decode(model, None, bos_id=1, eos_id=2)):
        with pytest.raises(ValueError, match="DataParallel wraps the model; pass the model's .mod"):
            call(nn.DataParallel(GPT(config)), torch.tensor([[1]]), 1)
