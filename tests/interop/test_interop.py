"""Weights are copied to and from torch.nn, and modules that differ are rejected."""

import re
from copy import deepcopy

import pytest
from dimensions import D_FF, D_MODEL, H
from parity import assert_equal
from random_inputs import randomize, tiny_transformer, torch_stack, torch_transformer
from torch import nn

from course_lib.add_norm import LayerNorm
from course_lib.decoder import Decoder, DecoderLayer
from course_lib.encoder import Encoder, EncoderLayer
from course_lib.gpt import GPT, CausalSelfAttention, GPTConfig, GPTLayer
from course_lib.interop import copy_to_torch, grad_pairs, load_from_torch
from course_lib.multi_head import MultiHeadAttention

SIZES = D_MODEL, H, D_FF
N = 2


def pair_of(kind, norm_first):
    """Return both encoders, or both decoders."""
    ours = dict(Encoder=Encoder, Decoder=Decoder)[kind]
    return ours(N, *SIZES, norm_first=norm_first), torch_stack(kind, N, norm_first=norm_first)


def torch_layer(kind, **changes):
    """Build one of torch's layers with our sizes."""
    return torch_stack(kind, 1, **changes).layers[0]


def attention(**changes):
    """Build torch's attention with our sizes."""
    return nn.MultiheadAttention(D_MODEL, H, **changes)


def gpt(**changes):
    """Build a GPT with our sizes."""
    sizes = dict(vocab_size=7, max_len=8, num_layers=N, num_heads=H, d_model=D_MODEL)
    return GPT(GPTConfig(**(sizes | changes)))


def gpt_layer(d_ff=4 * D_MODEL, **changes):
    """Build torch's layer with GPT-2's choices."""
    how = dict(activation="gelu", norm_first=True, dropout=0.0, batch_first=True)
    return nn.TransformerEncoderLayer(D_MODEL, H, d_ff, **(how | changes))


def gpt_stack(num_layers=N, norm_bias=True, **changes):
    """Build torch's stack with GPT-2's choices."""
    last = nn.LayerNorm(D_MODEL, bias=norm_bias)
    return nn.TransformerEncoder(gpt_layer(**changes), num_layers, last, enable_nested_tensor=False)


def without_bias(attention, *parts):
    """Remove the biases from some or all projections of an attention layer."""
    for part in parts or ("w_qkv", "w_o"):
        getattr(attention, part).bias = None
    return attention


PAIRS = {
    "attention": lambda: (MultiHeadAttention(D_MODEL, H), attention()),
    "attention without bias": lambda: (
        MultiHeadAttention(D_MODEL, H, bias=False),
        attention(bias=False),
    ),
    "our norm": lambda: (LayerNorm(D_MODEL), nn.LayerNorm(D_MODEL)),
    "torch's norm": lambda: (nn.LayerNorm(D_MODEL), nn.LayerNorm(D_MODEL)),
    "encoder layer": lambda: (EncoderLayer(*SIZES), torch_layer("Encoder")),
    "decoder layer": lambda: (DecoderLayer(*SIZES), torch_layer("Decoder")),
    "pre-norm encoder": lambda: pair_of("Encoder", norm_first=True),
    "pre-norm decoder": lambda: pair_of("Decoder", norm_first=True),
    "post-norm transformer": lambda: (tiny_transformer(), torch_transformer()),
    "pre-norm transformer": lambda: (
        tiny_transformer(norm_first=True),
        torch_transformer(norm_first=True),
    ),
    "fused attention": lambda: (CausalSelfAttention(D_MODEL, H), attention()),
    "fused attention without bias": lambda: (
        without_bias(CausalSelfAttention(D_MODEL, H)),
        attention(bias=False),
    ),
    "GPT layer": lambda: (GPTLayer(D_MODEL, H), gpt_layer()),
    "GPT": lambda: (gpt(), gpt_stack()),
    "GPT without bias": lambda: (gpt(bias=False), gpt_stack(bias=False, norm_bias=False)),
}
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())


# --- properties (the basis of the parity tests in all other files)


@EVERY_PAIR
def test_weights_survive_the_round_trip(pair):
    ours, theirs = (randomize(module) for module in pair())
    ours_before, theirs_before = deepcopy(ours), deepcopy(theirs)
    load_from_torch(ours, theirs)
    loaded, emptied = deepcopy(ours.state_dict()), deepcopy(theirs)
    for parameter in emptied.parameters():
        parameter.data.zero_()
    copy_to_torch(ours, emptied)
    assert_equal(emptied.state_dict(), theirs_before.state_dict())
    assert_equal(theirs.state_dict(), theirs_before.state_dict())  # the source does not change

    copy_to_torch(ours_before, theirs)
    assert_equal(ours.state_dict(), loaded)  # the two share no memory
    load_from_torch(ours, theirs)
    assert_equal(ours.state_dict(), ours_before.state_dict())


# --- errors

MISFITS = {
    "only ours has [], and only torch's has ['multihead_attn.in_proj_bias', ": lambda: (
        EncoderLayer(*SIZES),
        torch_layer("Decoder"),
    ),
    "num_heads differs: ours is 3, torch's is 6": lambda: (
        MultiHeadAttention(D_MODEL, H),
        nn.MultiheadAttention(D_MODEL, 6),
    ),
    "biases in only some projections": lambda: (
        without_bias(MultiHeadAttention(D_MODEL, H), "w_k"),
        attention(),
    ),
    "eps differs: ours is 1e-05, torch's is 0.001": lambda: (
        LayerNorm(D_MODEL),
        nn.LayerNorm(D_MODEL, eps=1e-3),
    ),
    "norm_first differs: ours is False, torch's is True": lambda: (
        EncoderLayer(*SIZES),
        torch_layer("Encoder", norm_first=True),
    ),
    "activation differs: ours is {-1.0: -0.158": lambda: (
        with_activation(nn.GELU("tanh"), GPTLayer(D_MODEL, H)),
        gpt_layer(),
    ),
    "['norm.bias', 'norm.weight']. If it is the final norm": lambda: (
        Encoder(N, *SIZES),
        with_final_norm(),
    ),
}


def with_activation(activation, layer):
    """Give a layer another activation, such as GPT-2's approximate GELU."""
    layer.feed_forward.activation = activation
    return layer


def with_final_norm():
    """Build a stack like nn.Transformer's, which has a final norm even in post-norm."""
    _, theirs = pair_of("Encoder", norm_first=False)
    theirs.norm = nn.LayerNorm(D_MODEL)
    return theirs


@pytest.mark.parametrize("carry", [load_from_torch, copy_to_torch, grad_pairs])
@pytest.mark.parametrize(("message", "pair"), MISFITS.items(), ids=MISFITS.keys())
def test_a_pair_that_does_not_fit_is_named_and_left_unchanged(carry, message, pair):
    ours, theirs = (randomize(module) for module in pair())
    kept = deepcopy(ours.state_dict()), deepcopy(theirs.state_dict())
    with pytest.raises(ValueError, match=re.escape(message)):
        carry(ours, theirs)
    assert_equal((ours.state_dict(), theirs.state_dict()), kept)
