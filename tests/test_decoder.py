"""DecoderLayer and Decoder agree with torch; the future is hidden, the source is not."""

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
    T,
    assert_equal,
    assert_every_parameter_learns,
    assert_parity,
    decoder_layer_by_hand,
    make_generator,
    make_mask,
    normal,
    normed,
    overheard,
    randomize,
    says,
    seeded,
    silenced,
    torch_attn_mask,
    trace,
)
from torch import nn

from course_lib.decoder import Decoder, DecoderLayer
from course_lib.interop import load_from_torch

N = 2
BOTH_PLACES = pytest.mark.parametrize("norm_first", [False, True])
BOTH_SIZES = pytest.mark.parametrize("kind", [DecoderLayer, partial(Decoder, N)])


def make(kind, *, num_heads=H, **changes):
    """Build a layer, or a stack of N, with random numbers in it."""
    return randomize(kind(D_MODEL, num_heads, D_FF, **changes))


def make_torch_layer(norm_first=False, activation="relu", num_heads=H):
    """Build torch's layer with the same sizes."""
    how = dict(norm_first=norm_first, activation=activation, batch_first=True)
    return randomize(nn.TransformerDecoderLayer(D_MODEL, num_heads, D_FF, dropout=0.0, **how))


def vectors(generator):
    """Draw a target and a memory."""
    return [normal(generator, B, T, D_MODEL), normal(generator, B, S, D_MODEL)]


def both_masks(self_kind, cross_kind):
    """Return a mask for the target and one for the source."""
    return make_mask(self_kind, T, T), make_mask(cross_kind, T, S)


def by_hand(decoder, x, memory, *masks):
    """Run a layer or a stack as the paper's formulas."""
    layers = decoder.layers if isinstance(decoder, Decoder) else [decoder]
    for layer in layers:
        x = decoder_layer_by_hand(layer, x, memory, *masks)
    return normed(decoder.norm, x) if getattr(decoder, "norm", None) else x


# --- parity


@BOTH_PLACES
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(
    ("self_kind", "cross_kind"),
    [*zip(TORCH_MASK_KINDS, TORCH_MASK_KINDS, strict=True), ("both", "padding")],
)
def test_layer_agrees_with_torch(generator, self_kind, cross_kind, activation, norm_first):
    theirs = make_torch_layer(norm_first, activation)
    ours = make(DecoderLayer, norm_first=norm_first, activation=activation)
    load_from_torch(ours, theirs)
    masks = both_masks(self_kind, cross_kind)
    blocked = torch_attn_mask(masks[0], T, T), torch_attn_mask(masks[1], T, S)
    assert_parity(
        ours,
        theirs,
        lambda x, memory: ours(x, memory, *masks),
        lambda x, memory: theirs(x, memory, *blocked),
        vectors(generator),
    )


@BOTH_PLACES
@pytest.mark.parametrize("num_heads", [1, 6])
@pytest.mark.parametrize(("self_kind", "cross_kind"), [("none", "none"), ("both", "padding")])
def test_stack_agrees_with_torch(generator, self_kind, cross_kind, num_heads, norm_first):
    last = nn.LayerNorm(D_MODEL) if norm_first else None  # the paper has none
    layer = make_torch_layer(norm_first, num_heads=num_heads)
    theirs = randomize(nn.TransformerDecoder(layer, N, last))
    ours = make(partial(Decoder, N), num_heads=num_heads, norm_first=norm_first)
    load_from_torch(ours, theirs)
    masks = both_masks(self_kind, cross_kind)
    # one and the same for all heads, so that it fits any number of them
    blocked = [
        None if mask is None else ~mask.expand(B, num_heads, T, length).flatten(0, 1)
        for mask, length in zip(masks, (T, S), strict=True)
    ]
    assert_parity(
        ours,
        theirs,
        lambda x, memory: ours(x, memory, *masks),
        lambda x, memory: theirs(x, memory, *blocked),
        vectors(generator),
    )


@BOTH_SIZES
@BOTH_PLACES
@pytest.mark.parametrize("mask_kind", MASK_KINDS)
def test_agrees_with_the_formulas_when_widths_are_free(generator, mask_kind, norm_first, kind):
    module = make(kind, norm_first=norm_first, d_k=D_K - 1, d_v=D_V)
    masks, inputs = both_masks(mask_kind, mask_kind), vectors(generator)
    formulas = trace(lambda *inputs: by_hand(module, *inputs, *masks), inputs, module)
    assert_equal(trace(lambda *inputs: module(*inputs, *masks), inputs, module), formulas)


# --- properties


@BOTH_SIZES
@BOTH_PLACES
@given(seed=st.integers(0, 2**31), cut=st.integers(1, T - 1), training=st.booleans())
def test_future_cannot_change_the_past(kind, norm_first, seed, cut, training):
    generator, module = make_generator(seed), make(kind, norm_first=norm_first).train(training)
    masks, (x, memory) = both_masks("causal", "padding"), vectors(generator)
    changed = x.clone()
    changed[:, cut:] = normal(generator, B, T - cut, D_MODEL)
    before, after = module(x, memory, *masks), module(changed, memory, *masks)
    assert_equal(after[:, :cut], before[:, :cut])
    assert (after[:, cut:] != before[:, cut:]).any()


@BOTH_SIZES
def test_the_first_word_may_look_at_the_whole_source(generator, kind):
    module, (x, memory) = make(kind), vectors(generator)
    changed = memory.clone()
    changed[:, -1] += 1.0
    masks = both_masks("causal", "none")
    before, after = module(x, memory, *masks), module(x, changed, *masks)
    assert (before[:, 0] - after[:, 0]).abs().max() > 1e-3


@BOTH_SIZES
@given(seed=st.integers(0, 2**31), extra=st.integers(1, 3))
def test_padding_on_either_side_changes_nothing(kind, seed, extra):
    generator, module = make_generator(seed), make(kind)
    x, memory = vectors(generator)
    more_x, more_memory = (normal(generator, B, extra, D_MODEL) for _ in range(2))
    real_target = torch.arange(T + extra) < T
    padded = module(
        torch.cat([x, more_x], dim=1),
        torch.cat([memory, more_memory], dim=1),
        make_mask("causal", T + extra, T + extra) & real_target,
        (torch.arange(S + extra) < S)[None, None, None, :],
    )
    assert_equal(padded[:, :T], module(x, memory, make_mask("causal", T, T)))


@BOTH_SIZES
@given(
    seed=st.integers(0, 2**31),
    order=st.permutations(range(T)),
    memory_order=st.permutations(range(S)),
)
def test_without_positions_only_the_order_of_the_target_shows(kind, seed, order, memory_order):
    module, (x, memory) = make(kind), vectors(make_generator(seed))
    moved = module(x[:, order], memory[:, memory_order])
    assert_equal(moved, module(x, memory)[:, order])


@BOTH_SIZES
@pytest.mark.parametrize("mask_kind", MASK_KINDS)
def test_a_sentence_is_decoded_alike_alone_and_in_a_batch(generator, mask_kind, kind):
    module, (x, memory) = make(kind), vectors(generator)
    masks = [m.expand(B, H, T, -1) if m is not None else m for m in both_masks(*[mask_kind] * 2)]
    output = module(x, memory, *masks)
    for row in range(B):
        one = slice(row, row + 1)
        alone = module(x[one], memory[one], *(None if m is None else m[one] for m in masks))
        assert_equal(alone, output[one])


@BOTH_SIZES
@BOTH_PLACES
def test_gradients_reach_every_parameter_but_the_biases_of_the_keys(generator, norm_first, kind):
    module, masks = make(kind, norm_first=norm_first), both_masks("causal", "padding")
    result = trace(lambda *inputs: module(*inputs, *masks), vectors(generator), module)
    assert_every_parameter_learns(module, result["parameters"])
    _, memory_gradient = result["inputs"]
    hidden = ~masks[1].expand(B, 1, 1, S)[:, 0, 0]
    assert (memory_gradient[hidden] == 0).all()
    assert (memory_gradient[~hidden] != 0).all()


@BOTH_SIZES
@BOTH_PLACES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_blocked_row_leaves_all_gradients_finite(generator, dtype, norm_first, kind):
    module = make(kind, norm_first=norm_first).to(dtype)
    masks = both_masks("blocked row", "blocked row")
    inputs = [x.to(dtype) for x in vectors(generator)]
    result = trace(lambda *inputs: module(*inputs, *masks), inputs, module)
    tensors = [*result["outputs"], *result["inputs"], *result["parameters"].values()]
    assert all(tensor.isfinite().all() for tensor in tensors)


@BOTH_SIZES
def test_inputs_and_masks_are_left_unchanged(generator, kind):
    inputs, masks = vectors(generator), both_masks("both", "padding")
    kept = [x.clone() for x in inputs], tuple(mask.clone() for mask in masks)
    make(kind, dropout=0.5)(*inputs, *masks)
    torch.testing.assert_close((inputs, masks), kept, rtol=0, atol=0)


def test_every_sublayer_owns_its_norm_and_its_attention():
    decoder = Decoder(N, D_MODEL, H, D_FF)
    norms = [
        norm.norm
        for layer in decoder.layers
        for norm in (layer.add_norm1, layer.add_norm2, layer.add_norm3)
    ]
    assert len({id(norm) for norm in norms}) == 3 * N
    starts = [w.w_q.weight for layer in decoder.layers for w in (layer.self_attn, layer.cross_attn)]
    assert all((starts[0] != other).any() for other in starts[1:])  # no copies of one start


@BOTH_PLACES
def test_only_pre_norm_ends_with_a_norm(norm_first):
    norm = Decoder(N, D_MODEL, H, D_FF, norm_first=norm_first).norm
    assert isinstance(norm, nn.LayerNorm) if norm_first else norm is None


@BOTH_PLACES
def test_dropping_all_that_sublayers_say_leaves_the_residual_path(generator, norm_first):
    layer, (x, memory) = make(DecoderLayer, dropout=1.0, norm_first=norm_first), vectors(generator)
    residual = x
    if not norm_first:
        for add_norm in (layer.add_norm1, layer.add_norm2, layer.add_norm3):
            residual = add_norm.norm(residual)
    assert_equal(layer(x, memory), residual)


@BOTH_PLACES
def test_dropout_touches_nothing_inside_the_sublayers(generator, norm_first):
    layer = make(DecoderLayer, dropout=0.5, norm_first=norm_first)
    inputs, masks = vectors(generator), both_masks("causal", "padding")
    names = ["self_attn", "cross_attn", "feed_forward"]
    heard = overheard(layer, names, lambda: layer(*inputs, *masks))
    layer.eval()
    for name, (args, kwargs, output) in heard.items():
        assert_equal(layer.get_submodule(name)(*args, **kwargs), output)


@pytest.mark.parametrize(
    ("which", "silent"),
    [
        ("attention_dropout", ["self_attn.w_o", "cross_attn.w_o"]),
        ("activation_dropout", ["feed_forward.linear2"]),
    ],
)
def test_the_other_dropouts_act_inside_their_sublayers(generator, which, silent):
    layer, inputs = make(DecoderLayer, **{which: 1.0}), vectors(generator)
    assert_equal(layer(*inputs), decoder_layer_by_hand(silenced(layer, *silent), *inputs))
    assert_equal(layer.eval()(*inputs), decoder_layer_by_hand(layer, *inputs))


@BOTH_SIZES
@BOTH_PLACES
def test_nothing_is_random_in_eval_mode(generator, norm_first, kind):
    shares = dict(dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)
    dropping = make(kind, norm_first=norm_first, **shares)
    keeping, inputs = make(kind, norm_first=norm_first), vectors(generator)
    with seeded():
        assert (dropping(*inputs) - keeping(*inputs)).abs().max() > 1e-3
    assert_equal(dropping.eval()(*inputs), keeping.train()(*inputs))
    assert_equal(keeping.eval()(*inputs), keeping.train()(*inputs))


# --- limits


@BOTH_SIZES
@BOTH_PLACES
def test_one_token_one_head_batch_of_one(generator, norm_first, kind):
    module = make(kind, num_heads=1, norm_first=norm_first)
    x, memory = (x[:1, :1] for x in vectors(generator))
    assert_equal(module(x, memory, torch.tensor([[True]])), by_hand(module, x, memory))


@BOTH_SIZES
def test_when_only_one_source_word_is_visible_the_others_do_not_matter(generator, kind):
    module, (x, memory) = make(kind), vectors(generator)
    only = (torch.arange(S) == 2)[None]
    expected = module(x, memory[:, 2:3])
    assert_equal(module(x, memory, cross_mask=only), expected)


# --- errors


@pytest.mark.parametrize("num_layers", [0, -1])
def test_a_stack_without_layers_is_refused(num_layers):
    with pytest.raises(ValueError, match=says(f"num_layers={num_layers}")):
        Decoder(num_layers, D_MODEL, H, D_FF)


@BOTH_SIZES
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 10}, ["d_model=10", "num_heads=3"]),
        ({"num_heads": 0}, ["num_heads=0"]),
        ({"d_v": 0}, [0]),
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
    module, (x, memory) = make(kind), vectors(generator)
    with pytest.raises(ValueError, match=says("query", (B, T, 17), D_MODEL)):
        module(x[..., 1:], memory)
    with pytest.raises(ValueError, match=says("key", (B, S, 17), D_MODEL)):
        module(x, memory[..., 1:])
    with pytest.raises(ValueError, match=says((B, H, T, D_K), (3, H, S, D_K))):
        module(x, torch.cat([memory, memory[:1]]))
    with pytest.raises(ValueError, match=says("boolean", torch.int64)):
        module(x, memory, torch.ones(T, T, dtype=torch.long))
    with pytest.raises(ValueError, match=says("mask", (T, T), (B, H, T, S))):
        module(x, memory, None, make_mask("causal", T, T))
