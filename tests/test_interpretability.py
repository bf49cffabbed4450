"""The lens, the ablation and the patch agree with the same computation on a changed copy."""

from copy import deepcopy

import pytest
import torch
from dimensions import D_MODEL, MAX_LEN, B, H, T
from parity import assert_equal, says
from random_inputs import randomize
from reference import attention_by_loops

from course_lib.gpt import GPT, GPTConfig
from course_lib.interpretability import (
    ablate_head,
    attention_weights,
    logit_lens,
    patch_activations,
    residual_stream,
)
from course_lib.modern_decoder import ModernConfig, ModernDecoder

N, VOCAB = 4, 11
SIZES = dict(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=N, num_heads=H, d_model=D_MODEL)
IDS = torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]])
SOURCE = torch.tensor([[2, 7, 1, 8], [0, 10, 4, 5]])
EVERY_HEAD = [(layer, head) for layer in range(N) for head in range(H)]
EVERY_PLACE = [(layer, position) for layer in range(N) for position in range(T)]


def gpt():
    """Build a GPT in training mode, with dropout, in float64."""
    return randomize(GPT(GPTConfig(**SIZES, dropout=0.5))).train()


def modern():
    """Build a decoder whose heads share one KV head, in training mode, in float64."""
    return randomize(ModernDecoder(ModernConfig(**SIZES, num_kv_heads=1, d_ff=7))).train()


CALLS = {
    "residual stream": lambda model, ids: residual_stream(model, ids),
    "lens": lambda model, ids: logit_lens(model, ids),
    "ablation": lambda model, ids: ablate_head(model, ids, 1, 2),
    "patch": lambda model, ids: patch_activations(model, ids, SOURCE, 1, 2),
    "weights": lambda model, ids: attention_weights(model, ids),
}
every_model = pytest.mark.parametrize("build", [gpt, modern])
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def logits_of(model, ids=IDS):
    """Return the logits of a copy in eval mode, without gradients."""
    with torch.no_grad():
        return deepcopy(model).eval()(ids)[0]


# --- what they compute


@every_model
def test_each_depth_of_the_lens_is_the_answer_of_a_model_with_only_the_first_layers(build):
    model, seen = build(), logit_lens(build(), IDS)
    assert seen.shape == (N + 1, B, T, VOCAB)
    for depth in range(N + 1):
        shorter = deepcopy(model)
        shorter.layers = shorter.layers[:depth]
        assert torch.equal(seen[depth], logits_of(shorter))


def test_the_residual_stream_starts_with_tokens_and_positions_and_each_layer_adds_to_it():
    model = gpt().eval()
    stream = residual_stream(model, IDS)
    assert_equal(stream[0], model.embedding.weight[IDS] + model.positions.weight[:T])
    for number, layer in enumerate(model.layers):
        assert_equal(stream[number + 1], layer(stream[number]))


@every_model
@pytest.mark.parametrize("layer, head", EVERY_HEAD)
def test_ablating_a_head_is_removing_its_columns_from_w_o(build, layer, head):
    changed = build()
    with torch.no_grad():
        changed.layers[layer].self_attn.w_o.weight.unflatten(1, (H, -1))[:, head] = 0
    expected = logits_of(changed)
    assert_equal(ablate_head(build(), IDS, layer, head), expected)
    assert not torch.allclose(expected, logits_of(build()))


@pytest.mark.parametrize("layer, position", EVERY_PLACE)
def test_a_patch_is_a_walk_through_the_layers_with_one_vector_replaced(layer, position):
    model = gpt().eval()
    x, other = (model.embedding.weight[ids] + model.positions.weight[:T] for ids in (IDS, SOURCE))
    for number, block in enumerate(model.layers):
        x, other = block(x), block(other)
        if number == layer:
            parts = x[:, :position], other[:, position : position + 1], x[:, position + 1 :]
            x = torch.cat(parts, dim=1)
    expected = model.output(model.norm(x))
    assert_equal(patch_activations(model, IDS, SOURCE, layer, position), expected)


@every_model
def test_the_attention_weights_agree_with_loops(build):
    model = build().eval()
    weights, stream = attention_weights(model, IDS), residual_stream(model, IDS)
    assert weights.shape == (N, B, H, T, T)
    more = (model.angles[:T],) if build is modern else ()
    for number, layer in enumerate(model.layers):
        norm = layer.add_norm1.norm if build is gpt else layer.norm1
        q, k, v = layer.self_attn.project(norm(stream[number]), *more)
        k, v = (x.expand(-1, H, -1, -1) for x in (k, v))
        past = torch.ones(T, T, dtype=torch.bool).tril()
        assert_equal(weights[number], attention_by_loops(q, k, v, past)[1])


# --- what they leave behind


@every_model
@every_call
def test_a_look_inside_leaves_the_model_as_it_was(build, call):
    model, before = build(), build().state_dict()
    evaluated = call(build().eval(), IDS)
    for training in (True, False):
        found = call(model.train(training), IDS)
        assert torch.equal(found, evaluated) and not found.requires_grad  # dropout is off
        assert {module.training for module in model.modules()} == {training}
    assert torch.is_grad_enabled()
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@every_call
def test_after_an_error_no_hook_is_left_and_the_mode_is_restored(call):
    model = gpt()
    with pytest.raises(ValueError, match=says("vocabulary")):
        call(model, IDS + VOCAB)
    assert model.training and torch.is_grad_enabled()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
