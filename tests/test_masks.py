"""Masks have one polarity, are converted for torch, and hide padded keys."""

import pytest
import torch
from dimensions import PAD, B, S
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.masks import causal_mask, padding_mask


@given(length=st.integers(1, 9))
def test_causal_mask_agrees_with_torch(length):
    theirs = nn.Transformer.generate_square_subsequent_mask(length)  # additive
    assert torch.equal(causal_mask(length).log(), theirs)
    assert causal_mask(length).dtype == torch.bool


@given(
    ids=st.lists(st.lists(st.integers(0, 4), min_size=S, max_size=S), min_size=1, max_size=4),
    pad_id=st.integers(0, 5),
)
def test_padding_mask_shows_the_real_tokens_to_every_row_and_head(ids, pad_id):
    mask = padding_mask(torch.tensor(ids), pad_id)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(ids), 1, 1, S)
    assert mask.flatten(1).tolist() == [[token != pad_id for token in row] for row in ids]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_masks_are_made_on_the_device_where_they_are_needed(device):
    assert causal_mask(3, device).device.type == device
    assert padding_mask(torch.ones(B, S, device=device), PAD).device.type == device
