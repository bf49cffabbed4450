"""Only the low-rank adapters learn, and they merge into their matrix."""

from copy import deepcopy

import pytest
import torch
from dimensions import B, T
from parity import assert_equal
from random_inputs import make_generator, normal, randomize
from torch import nn
from torch.nn import functional as F

from course_lib.gpt import GPT, GPTConfig
from course_lib.lora import LoRALinear, add_lora, merge_lora
from course_lib.modern_decoder import ModernConfig, ModernDecoder

VOCAB, MAX_LEN = 11, 9
SIZES = dict(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=2, num_heads=2, d_model=8)
MODELS = {
    "GPT": (lambda: GPT(GPTConfig(**SIZES, dropout=0.0)), ["w_qkv", "linear2"]),
    "ModernDecoder": (
        lambda: ModernDecoder(ModernConfig(**SIZES, num_kv_heads=1, d_ff=7)), ["w_q", "w_v", "gate"]
    ),
}  # fmt: skip
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)


def build(name):
    """Build a model in float64 with random numbers, and draw a batch."""
    model = randomize(MODELS[name][0]())
    return model, torch.randint(VOCAB, (B, T), generator=make_generator()), MODELS[name][1]


def learn(model, ids):
    """Take three steps with the trainable parameters."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        model(ids, ids)[1].backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_its_matrix_plus_a_product_of_two_matrices(bias):
    layer = LoRALinear(randomize(nn.Linear(5, 7, bias=bias)), rank=2, alpha=3.0).double()
    layer.b.data = normal(make_generator(), 7, 2)
    x = normal(make_generator(1), B, T, 5)
    matrix = layer.linear.weight + 3.0 / 2 * layer.b @ layer.a
    assert_equal(layer(x), F.linear(x, matrix, layer.linear.bias))


def test_a_is_initialized_with_the_variance_of_its_width_and_b_with_0():
    layer = LoRALinear(nn.Linear(400, 6), rank=50, alpha=1.0)
    assert layer.a.shape == (50, 400) and (layer.b == 0).all()
    assert layer.a.std().item() == pytest.approx(400**-0.5, rel=0.05)
    assert layer.a[0].ne(layer.a[1]).all()


@EVERY_MODEL
def test_new_adapters_do_not_change_the_output_and_then_only_they_learn(name):
    model, ids, names = build(name)
    before, logits = deepcopy(model), model(ids)[0]
    add_lora(model, names, rank=2, alpha=4.0)
    assert_equal(model(ids)[0], logits)
    learns = {key for key, p in model.named_parameters() if p.requires_grad}
    assert learns == {
        f"layers.{n}.{part}.{names_of}.{matrix}"
        for n in range(2)
        for part in ("self_attn", "feed_forward")
        for names_of in names
        for matrix in "ab"
        if hasattr(getattr(before.layers[n], part), names_of)
    }
    learn(model, ids)
    assert (model(ids)[0] - logits).abs().max() > 1e-3
    now = {key.replace("linear.", ""): p for key, p in model.named_parameters()}
    now |= dict(model.named_parameters())
    for key, parameter in before.named_parameters():
        assert torch.equal(now[key], parameter)


@EVERY_MODEL
def test_merging_keeps_the_logits_and_restores_the_old_modules(name):
    model, ids, names = build(name)
    keys = list(model.state_dict())
    add_lora(model, names, rank=2, alpha=4.0)
    learn(model, ids)
    logits = model(ids)[0]
    merge_lora(model)
    assert_equal(model(ids)[0], logits)
    assert list(model.state_dict()) == keys
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(isinstance(module, LoRALinear) for module in model.modules())
    merge_lora(model)  # there is nothing more to merge
    assert_equal(model(ids)[0], logits)


def test_a_layer_that_shares_its_weight_is_neither_adapted_nor_merged():
    model, ids, _ = build("GPT")
    with pytest.raises(ValueError, match="output shares its weight"):
        add_lora(model, ["w_o", "output"], rank=2, alpha=1.0)
    add_lora(model, ["w_o"], rank=2, alpha=1.0)
    model.layers[1].self_attn.w_o.linear.weight = model.layers[0].self_attn.w_o.linear.weight
    logits = model(ids)[0]
    with pytest.raises(ValueError, match="w_o shares its weight"):
        merge_lora(model)
    assert_equal(model(ids)[0], logits)
