"""EncoderLayer and Encoder agree with torch, and treat sentences as sentences."""

from functools import partial

import pytest
from dimensions import D_FF, D_K, D_MODEL, D_V, TORCH_MASK_KINDS, B, H, S
from parity import assert_equal, assert_parity, says, silenced, trace
from random_inputs import make_mask, normal, randomize, torch_attn_mask, torch_stack
from reference import encoder_layer_by_hand, normed

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


def by_hand(module, x, mask=None):
    """Run a layer or a stack as the paper's formulas."""
    for layer in module.layers if isinstance(module, Encoder) else [module]:
        x = encoder_layer_by_hand(layer, x, mask)
    return normed(module.norm, x) if getattr(module, "norm", None) else x


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


@BOTH_ORDERS
@pytest.mark.parametrize("num_heads", [1, 6])
@pytest.mark.parametrize("mask_kind", ["none", "both"])
def test_stack_agrees_with_torch(generator, mask_kind, num_heads, norm_first):
    theirs = torch_stack("Encoder", N, num_heads, norm_first)
    ours = make(partial(Encoder, N), num_heads=num_heads, norm_first=norm_first)
    load_from_torch(ours, theirs)
    mask = make_mask(mask_kind, S, S)
    # one and the same for all heads, so that it fits any number of them
    blocked = None if mask is None else ~mask.expand(B, num_heads, S, S).flatten(0, 1)
    assert_parity(
        ours, theirs, lambda x: ours(x, mask), lambda x: theirs(x, blocked), [sentences(generator)]
    )


@BOTH_SIZES
@BOTH_ORDERS
@pytest.mark.parametrize("mask_kind", ["per head", "blocked row"])
def test_agrees_with_the_formulas_when_widths_are_free(generator, mask_kind, norm_first, kind):
    module = make(kind, norm_first=norm_first, d_k=D_K - 1, d_v=D_V)
    mask, x = make_mask(mask_kind, S, S), [sentences(generator)]
    formulas = trace(lambda x: by_hand(module, x, mask), x, module)
    assert_equal(trace(lambda x: module(x, mask), x, module), formulas)


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
    assert_equal(module(x), by_hand(silenced(module, *names), x))


# --- errors


@pytest.mark.parametrize("num_layers", [0, -1])
def test_a_stack_without_layers_is_refused(num_layers):
    with pytest.raises(ValueError, match=says(f"num_layers={num_layers}")):
        Encoder(num_layers, D_MODEL, H, D_FF)
