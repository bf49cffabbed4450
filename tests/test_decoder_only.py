"""DecoderOnly agrees with torch's encoder under a causal mask, and windows are uniform."""

import math

import pytest
import torch
from dimensions import D_MODEL, MAX_LEN, PAD, TGT_VOCAB, B, T
from hypothesis import given
from hypothesis import strategies as st
from parity import assert_parity
from random_inputs import make_generator, randomize, tiny_config, torch_stack
from reference import encoding_by_loops
from torch.nn import functional as F

from course_lib.decoder_only import DecoderOnly, random_windows
from course_lib.interop import load_from_torch

N = 2  # layers; the unused side of the configuration has 3
BOTH_ORDERS = pytest.mark.parametrize("norm_first", [False, True])
BOTH_POSITIONS = pytest.mark.parametrize("learned", [False, True])
SEEDS = st.integers(0, 2**31)


def config(**changes):
    """Return the configuration of a model whose two sides differ in every number."""
    return tiny_config(**(dict(num_encoder_layers=3, num_decoder_layers=N) | changes))


def tiny(learned=False, **changes):
    """Build the model of a tiny configuration, in float64, filled with random numbers."""
    return randomize(DecoderOnly(config(**changes), learned))


def draw_ids(generator, *shape):
    """Draw ids from the whole vocabulary, in which the padding id is an ordinary token."""
    ids = torch.randint(TGT_VOCAB, shape, generator=generator)
    ids[0, 1 % shape[1]] = PAD
    return ids


@given(seed=SEEDS, text_length=st.integers(2, 40), batch_size=st.integers(1, 6), data=st.data())
def test_a_window_is_a_passage_and_its_prediction_is_one_token_later(
    seed, text_length, batch_size, data
):
    length, generator = data.draw(st.integers(1, text_length - 1)), make_generator(seed)
    text = torch.randperm(text_length, generator=generator) + 100  # every token occurs once
    read, predicted = random_windows(text, batch_size, length, generator)
    for row, next_row in zip(read.tolist(), predicted.tolist(), strict=True):
        start = text.tolist().index(row[0])
        assert row == text[start : start + length].tolist()
        assert next_row == text[start + 1 : start + 1 + length].tolist()
    assert read.shape == predicted.shape == (batch_size, length)


def test_all_windows_that_fit_are_equally_likely(generator):
    draws, windows = 40_000, 8
    read, _ = random_windows(torch.arange(11), draws, 3, generator)
    frequencies = read[:, 0].bincount(minlength=windows) / draws
    assert len(frequencies) == windows
    five_deviations = 5 * math.sqrt(1 / windows * (1 - 1 / windows) / draws)
    assert (frequencies - 1 / windows).abs().max() < five_deviations


@pytest.mark.filterwarnings("error")
@BOTH_POSITIONS
@BOTH_ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("length", [1, T, MAX_LEN])
def test_agrees_with_torch(generator, learned, norm_first, activation, length):
    theirs = torch_stack("Encoder", N, norm_first=norm_first, activation=activation)
    ours = tiny(learned, norm_first=norm_first, activation=activation)
    load_from_torch(ours.stack, theirs)
    ids = draw_ids(generator, B, length)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)  # torch: True = blocked
    sines = encoding_by_loops(MAX_LEN, D_MODEL).float().double()  # the table is kept in float32

    def run_theirs(table, out_table, positions=sines):
        vectors = F.embedding(ids, table) * D_MODEL**0.5 + positions[:length]
        return theirs(vectors, mask=future) @ out_table.T

    tables = [ours.embedding.weight, ours.embedding.weight]  # one matrix is used twice
    tables += [ours.positions.weight] if learned else []
    assert_parity(ours, theirs, lambda: ours(ids), run_theirs, tables, stack=ours.stack)
