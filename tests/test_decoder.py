"""Decoder agrees with torch, layer by layer, with masks in both kinds of attention."""

import pytest
from dimensions import D_FF, D_MODEL, TORCH_MASK_KINDS, B, H, S, T
from parity import assert_parity
from random_inputs import make_mask, normal, randomize, torch_attn_mask, torch_stack

from course_lib.decoder import Decoder
from course_lib.interop import load_from_torch


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(
    ("self_kind", "cross_kind"),
    [*zip(TORCH_MASK_KINDS, TORCH_MASK_KINDS, strict=True), ("both", "padding")],
)
def test_stack_agrees_with_torch(generator, self_kind, cross_kind, activation, norm_first):
    how = dict(norm_first=norm_first, activation=activation)
    ours, theirs = randomize(Decoder(2, D_MODEL, H, D_FF, **how)), torch_stack("Decoder", **how)
    load_from_torch(ours, theirs)
    masks = make_mask(self_kind, T, T), make_mask(cross_kind, T, S)
    blocked = torch_attn_mask(masks[0], T, T), torch_attn_mask(masks[1], T, S)
    assert_parity(
        ours,
        theirs,
        lambda x, memory: ours(x, memory, *masks),
        lambda x, memory: theirs(x, memory, *blocked),
        [normal(generator, B, T, D_MODEL), normal(generator, B, S, D_MODEL)],
    )
