"""DecoderLayer and Decoder agree with torch; the future is hidden, the source is not."""

from functools import partial

import pytest
from dimensions import D_FF, D_MODEL, TORCH_MASK_KINDS, B, H, S, T
from parity import assert_equal, assert_parity, silenced
from random_inputs import make_mask, normal, randomize, torch_attn_mask, torch_stack

from course_lib.decoder import Decoder, DecoderLayer
from course_lib.interop import load_from_torch

N = 2
BOTH_ORDERS = pytest.mark.parametrize("norm_first", [False, True])
BOTH_SIZES = pytest.mark.parametrize("kind", [DecoderLayer, partial(Decoder, N)])


def make(kind, *, num_heads=H, **changes):
    """Build a layer, or a stack of N, with random numbers in it."""
    return randomize(kind(D_MODEL, num_heads, D_FF, **changes))


def vectors(generator):
    """Draw a target and a memory."""
    return [normal(generator, B, T, D_MODEL), normal(generator, B, S, D_MODEL)]


def both_masks(self_kind, cross_kind):
    """Return a mask for the target and one for the source."""
    return make_mask(self_kind, T, T), make_mask(cross_kind, T, S)


# --- parity


@BOTH_ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(
    ("self_kind", "cross_kind"),
    [*zip(TORCH_MASK_KINDS, TORCH_MASK_KINDS, strict=True), ("both", "padding")],
)
def test_layer_agrees_with_torch(generator, self_kind, cross_kind, activation, norm_first):
    how = dict(norm_first=norm_first, activation=activation)
    ours, theirs = make(DecoderLayer, **how), torch_stack("Decoder", 1, **how).layers[0]
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


@BOTH_ORDERS
@pytest.mark.parametrize("num_heads", [1, 6])
@pytest.mark.parametrize(("self_kind", "cross_kind"), [("none", "none"), ("both", "padding")])
def test_stack_agrees_with_torch(generator, self_kind, cross_kind, num_heads, norm_first):
    theirs = torch_stack("Decoder", N, num_heads, norm_first)
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


# --- properties


def test_every_attention_starts_with_weights_of_its_own():
    decoder = Decoder(N, D_MODEL, H, D_FF)
    starts = [w.w_q.weight for layer in decoder.layers for w in (layer.self_attn, layer.cross_attn)]
    assert all((starts[0] != other).any() for other in starts[1:])  # neither shared nor copies


@BOTH_SIZES
@pytest.mark.parametrize(
    ("which", "silent"),
    [
        ("attention_dropout", ("self_attn.w_o", "cross_attn.w_o")),
        ("activation_dropout", ("feed_forward.linear2",)),
    ],
)
def test_the_other_dropouts_act_inside_their_sublayers(generator, which, silent, kind):
    module, inputs = make(kind, **{which: 1.0}), vectors(generator)
    names = [name for name, _ in module.named_modules() if name.endswith(silent)]
    assert_equal(module(*inputs), silenced(module, *names).eval()(*inputs))
