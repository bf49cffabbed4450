"""EncoderLayer and Encoder agree with torch, and treat sentences as sentences."""

from functools import partial

import pytest
from dimensions import D_FF, D_MODEL, TORCH_MASK_KINDS, B, H, S
from parity import assert_equal, assert_parity, silenced
from random_inputs import make_mask, normal, randomize, torch_attn_mask, torch_stack

from course_lib.encoder import Encoder, EncoderLayer
from course_lib.interop import load_from_torch

N = 2
BOTH_ORDERS = pytest.mark.parametrize("norm_first", [False, True])
BOTH_SIZES = pytest.mark.parametrize("kind", [EncoderLayer, partial(Encoder, N)])


def make(kind, *, num_heads=H, **changes):
    """Build a layer, or a stack of N, with random numbers in it."""
    return randomize(kind(D_MODEL, num_heads, D_FF, **changes))


def sentences(generator, length=S):
    """Draw vectors in place of tokens."""
    return normal(generator, B, length, D_MODEL)


# --- parity


@BOTH_ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask_kind", TORCH_MASK_KINDS)
def test_layer_agrees_with_torch(generator, mask_kind, activation, norm_first):
    how = dict(norm_first=norm_first, activation=activation)
    ours, theirs = make(EncoderLayer, **how), torch_stack("Encoder", 1, **how).layers[0]
    load_from_torch(ours, theirs)
    mask = make_mask(mask_kind, S, S)
    blocked = torch_attn_mask(mask, S, S)
    assert_parity(
        ours, theirs, lambda x: ours(x, mask), lambda x: theirs(x, blocked), [sentences(generator)]
    )


# --- properties


def test_every_layer_starts_with_weights_of_its_own():
    encoder = Encoder(N, D_MODEL, H, D_FF)
    first, second = (layer.self_attn.w_q.weight for layer in encoder.layers)
    assert (first != second).any()  # neither shared nor a copy


@BOTH_SIZES
@pytest.mark.parametrize(
    ("which", "silent"),
    [("attention_dropout", "self_attn.w_o"), ("activation_dropout", "feed_forward.linear2")],
)
def test_the_other_dropouts_act_inside_one_sublayer_each(generator, which, silent, kind):
    module, x = make(kind, **{which: 1.0}), sentences(generator)
    names = [name for name, _ in module.named_modules() if name.endswith(silent)]
    assert_equal(module(x), silenced(module, *names).eval()(x))
