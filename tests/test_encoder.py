"""Encoder agrees with torch, layer by layer, under every mask."""

import pytest
from dimensions import D_FF, D_MODEL, TORCH_MASK_KINDS, B, H, S
from parity import assert_parity
from random_inputs import make_mask, normal, randomize, torch_attn_mask, torch_stack

from course_lib.encoder import Encoder
from course_lib.interop import load_from_torch


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("kind", TORCH_MASK_KINDS)
def test_stack_agrees_with_torch(generator, kind, activation, norm_first):
    how = dict(norm_first=norm_first, activation=activation)
    ours, theirs = randomize(Encoder(2, D_MODEL, H, D_FF, **how)), torch_stack("Encoder", **how)
    load_from_torch(ours, theirs)
    mask = make_mask(kind, S, S)
    blocked = torch_attn_mask(mask, S, S)
    x = [normal(generator, B, S, D_MODEL)]
    assert_parity(ours, theirs, lambda x: ours(x, mask), lambda x: theirs(x, blocked), x)
