"""EncoderLayer and Encoder agree with torch, and treat sentences as sentences."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    D_FF,
    D_K,
    D_MODEL,
    D_V,
    MASK_KINDS,
    TORCH_MASK_KINDS,
    B,
    H,
    S,
    assert_equal,
    assert_every_parameter_learns,
    assert_parity,
    encoder_layer_by_hand,
    make_generator,
    make_mask,
    normal,
    overheard,
    randomize,
    says,
    seeded,
    silenced,
    torch_attn_mask,
    trace,
)
from torch import nn

from course_lib.encoder import Encoder, EncoderLayer
from course_lib.interop import load_from_torch

N = 2
BOTH_PLACES = pytest.mark.parametrize("norm_first", [False, True])
BOTH_SIZES = pytest.mark.parametrize("kind", [EncoderLayer, partial(Encoder, N)])


def make(kind, *, num_heads=H, **changes):
    """Build a layer, or a stack of N, with random numbers in it."""
    return randomize(kind(D_MODEL, num_heads, D_FF, **changes))


def make_torch_layer(norm_first=False, activation="relu", num_heads=H):
    """Build torch's layer with the same sizes."""
    how = dict(norm_first=norm_first, activation=activation, batch_first=True)
    return randomize(nn.TransformerEncoderLayer(D_MODEL, num_heads, D_FF, dropout=0.0, **how))


def sentences(generator, length=S):
    """Draw vectors in place of tokens."""
    return normal(generator, B, length, D_MODEL)


# --- parity


@BOTH_PLACES
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask_kind", TORCH_MASK_KINDS)
def test_layer_agrees_with_torch(generator, mask_kind, activation, norm_first):
    theirs = make_torch_layer(norm_first, activation)
    ours = make(EncoderLayer, norm_first=norm_first, activation=activation)
    load_from_torch(ours, theirs)
    mask = make_mask(mask_kind, S, S)
    blocked = torch_attn_mask(mask, S, S)
    assert_parity(
        ours, theirs, lambda x: ours(x, mask), lambda x: theirs(x, blocked), [sentences(generator)]
    )


@BOTH_PLACES
@pytest.mark.parametrize("num_heads", [1, 6])
@pytest.mark.parametrize("mask_kind", ["none", "both"])
def test_stack_agrees_with_torch(generator, mask_kind, num_heads, norm_first):
    last = nn.LayerNorm(D_MODEL) if norm_first else None  # the paper has none
    layer = make_torch_layer(norm_first, num_heads=num_heads)
    theirs = randomize(nn.TransformerEncoder(layer, N, last, enable_nested_tensor=False))
    ours = make(partial(Encoder, N), num_heads=num_heads, norm_first=norm_first)
    load_from_torch(ours, theirs)
    mask = make_mask(mask_kind, S, S)
    # one and the same for all heads, so that it fits any number of them
    blocked = None if mask is None else ~mask.expand(B, num_heads, S, S).flatten(0, 1)
    assert_parity(
        ours, theirs, lambda x: ours(x, mask), lambda x: theirs(x, blocked), [sentences(generator)]
    )


@BOTH_PLACES
@pytest.mark.parametrize("mask_kind", MASK_KINDS)
def test_layer_agrees_with_the_formulas_when_widths_are_free(generator, mask_kind, norm_first):
    layer = make(EncoderLayer, norm_first=norm_first, d_k=D_K - 1, d_v=D_V)
    mask, x = make_mask(mask_kind, S, S), [sentences(generator)]
    by_hand = trace(lambda x: encoder_layer_by_hand(layer, x, mask), x, layer)
    assert_equal(trace(lambda x: layer(x, mask), x, layer), by_hand)


def test_stack_passes_its_options_to_every_layer(generator):
    encoder = make(partial(Encoder, N), d_k=D_K - 1, d_v=D_V)
    mask, x = make_mask("padding", S, S), sentences(generator)
    expected = x
    for layer in encoder.layers:
        expected = encoder_layer_by_hand(layer, expected, mask)
    assert_equal(encoder(x, mask), expected)


# --- properties


@BOTH_SIZES
@BOTH_PLACES
@given(seed=st.integers(0, 2**31), order=st.permutations(range(S)))
def test_without_positions_a_permuted_sentence_gives_permuted_answers(
    kind, norm_first, seed, order
):
    module, x = make(kind, norm_first=norm_first), sentences(make_generator(seed))
    assert_equal(module(x[:, order]), module(x)[:, order])


@BOTH_SIZES
@given(seed=st.integers(0, 2**31), extra=st.integers(1, 3), training=st.booleans())
def test_padding_changes_nothing(kind, seed, extra, training):
    generator, module = make_generator(seed), make(kind).train(training)
    x, filling = sentences(generator), sentences(generator, extra)
    mask = (torch.arange(S + extra) < S)[None, None, None, :].expand(B, 1, 1, -1)
    assert_equal(module(torch.cat([x, filling], dim=1), mask)[:, :S], module(x))


@BOTH_SIZES
@given(seed=st.integers(0, 2**31), cut=st.integers(1, S - 1), training=st.booleans())
def test_under_a_causal_mask_the_future_cannot_change_the_past(kind, seed, cut, training):
    generator, module = make_generator(seed), make(kind).train(training)
    mask, x = make_mask("causal", S, S), sentences(generator)
    changed = x.clone()
    changed[:, cut:] = sentences(generator, S - cut)
    before, after = module(x, mask), module(changed, mask)
    assert_equal(after[:, :cut], before[:, :cut])
    assert (after[:, cut:] != before[:, cut:]).any()


@BOTH_SIZES
@BOTH_PLACES
@pytest.mark.parametrize("mask_kind", MASK_KINDS)
def test_a_sentence_is_encoded_alike_alone_and_in_a_batch(generator, mask_kind, norm_first, kind):
    module, x = make(kind, norm_first=norm_first), sentences(generator)
    mask = make_mask(mask_kind, S, S)
    full = None if mask is None else mask.expand(B, H, S, S)
    output = module(x, mask)
    for row in range(B):
        alone = module(x[row : row + 1], None if mask is None else full[row : row + 1])
        assert_equal(alone, output[row : row + 1])


@BOTH_SIZES
@BOTH_PLACES
def test_gradients_reach_every_parameter_but_the_biases_of_the_keys(generator, norm_first, kind):
    module = make(kind, norm_first=norm_first)
    mask = make_mask("per head", S, S)
    result = trace(lambda x: module(x, mask), [sentences(generator)], module)
    assert_every_parameter_learns(module, result["parameters"])


@BOTH_SIZES
@BOTH_PLACES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_blocked_row_leaves_all_gradients_finite(generator, dtype, norm_first, kind):
    module, mask = make(kind, norm_first=norm_first).to(dtype), make_mask("blocked row", S, S)
    result = trace(lambda x: module(x, mask), [sentences(generator).to(dtype)], module)
    tensors = [*result["outputs"], *result["inputs"], *result["parameters"].values()]
    assert all(tensor.isfinite().all() for tensor in tensors)


@BOTH_SIZES
@pytest.mark.parametrize("mask_kind", MASK_KINDS)
def test_input_and_mask_are_left_unchanged(generator, mask_kind, kind):
    x, mask = sentences(generator), make_mask(mask_kind, S, S)
    kept = x.clone(), None if mask is None else mask.clone()
    make(kind, dropout=0.5)(x, mask)
    torch.testing.assert_close((x, mask), kept, rtol=0, atol=0)


def test_every_sublayer_owns_its_norm_and_every_layer_its_numbers():
    encoder = Encoder(N, D_MODEL, H, D_FF)
    norms = [norm for layer in encoder.layers for norm in (layer.add_norm1, layer.add_norm2)]
    assert len({id(norm.norm) for norm in norms}) == 2 * N
    first, second = (layer.self_attn.w_q.weight for layer in encoder.layers)
    assert (first != second).any()  # no copies of one start either


@BOTH_PLACES
def test_only_pre_norm_ends_with_a_norm(norm_first):
    norm = Encoder(N, D_MODEL, H, D_FF, norm_first=norm_first).norm
    assert isinstance(norm, nn.LayerNorm) if norm_first else norm is None


@BOTH_PLACES
def test_dropping_all_that_sublayers_say_leaves_the_residual_path(generator, norm_first):
    layer = make(EncoderLayer, dropout=1.0, norm_first=norm_first)
    x = sentences(generator)
    residual = x if norm_first else layer.add_norm2.norm(layer.add_norm1.norm(x))
    assert_equal(layer(x), residual)


@BOTH_PLACES
def test_dropout_touches_nothing_inside_the_sublayers(generator, norm_first):
    layer = make(EncoderLayer, dropout=0.5, norm_first=norm_first)
    x, mask = sentences(generator), make_mask("per head", S, S)
    heard = overheard(layer, ["self_attn", "feed_forward"], lambda: layer(x, mask))
    layer.eval()
    for name, (args, kwargs, output) in heard.items():
        assert_equal(layer.get_submodule(name)(*args, **kwargs), output)


@pytest.mark.parametrize(
    ("which", "silent"),
    [("attention_dropout", "self_attn.w_o"), ("activation_dropout", "feed_forward.linear2")],
)
def test_the_other_dropouts_act_inside_one_sublayer_each(generator, which, silent):
    layer, x = make(EncoderLayer, **{which: 1.0}), sentences(generator)
    assert_equal(layer(x), encoder_layer_by_hand(silenced(layer, silent), x))
    assert_equal(layer.eval()(x), encoder_layer_by_hand(layer, x))


@BOTH_SIZES
@BOTH_PLACES
def test_nothing_is_random_in_eval_mode(generator, norm_first, kind):
    shares = dict(dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)
    dropping = make(kind, norm_first=norm_first, **shares)
    keeping, x = make(kind, norm_first=norm_first), sentences(generator)
    with seeded():
        assert (dropping(x) - keeping(x)).abs().max() > 1e-3
    assert_equal(dropping.eval()(x), keeping.train()(x))
    assert_equal(keeping.eval()(x), keeping.train()(x))


# --- limits


@BOTH_SIZES
@BOTH_PLACES
def test_one_token_reads_its_own_value(generator, norm_first, kind):
    module, x = make(kind, num_heads=1, norm_first=norm_first), sentences(generator)[:1, :1]
    expected = x
    for layer in module.layers if isinstance(module, Encoder) else [module]:
        expected = encoder_layer_by_hand(layer, expected)
    if isinstance(module, Encoder) and norm_first:
        expected = nn.functional.layer_norm(
            expected, (D_MODEL,), module.norm.weight, module.norm.bias
        )
    assert_equal(module(x), expected)


def test_a_stack_of_one_is_its_layer(generator):
    encoder, x = make(partial(Encoder, 1)), sentences(generator)
    assert_equal(encoder(x), encoder_layer_by_hand(encoder.layers[0], x))


def test_when_only_one_key_is_visible_the_others_do_not_matter(generator):
    layer, x = make(EncoderLayer), sentences(generator)
    only = torch.arange(S) == 3
    changed = x.clone()
    changed[:, 4] += 1.0
    before, after = layer(x, only[None]), layer(changed, only[None])
    assert_equal(after[:, :4], before[:, :4])


# --- errors


@pytest.mark.parametrize("num_layers", [0, -1])
def test_a_stack_without_layers_is_refused(num_layers):
    with pytest.raises(ValueError, match=says(f"num_layers={num_layers}")):
        Encoder(num_layers, D_MODEL, H, D_FF)


@BOTH_SIZES
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 10}, ["d_model=10", "num_heads=3"]),
        ({"num_heads": 0}, ["num_heads=0"]),
        ({"d_k": 0}, [0]),
        ({"activation": "swish"}, ["swish"]),
        ({"dropout": 1.5}, [1.5]),
    ],
)
def test_sizes_that_make_no_layer_are_named(kind, changes, message):
    sizes = dict(d_model=D_MODEL, num_heads=H, d_ff=D_FF)
    with pytest.raises(ValueError, match=says(*message)):
        kind(**(sizes | changes))


@BOTH_SIZES
def test_inputs_that_do_not_fit_are_named(generator, kind):
    module, x = make(kind), sentences(generator)
    with pytest.raises(ValueError, match=says((B, S, 17), D_MODEL)):
        module(x[..., 1:])
    with pytest.raises(ValueError, match=says("boolean", torch.float64)):
        module(x, torch.ones(S, S).double())
    with pytest.raises(ValueError, match=says("mask", (4, 4), (B, H, S, S))):
        module(x, make_mask("causal", S - 1, S - 1))
