"""DecoderOnly agrees with torch's encoder under a causal mask, and windows are uniform."""

import math

import pytest
import torch
from dimensions import D_MODEL, MAX_LEN, PAD, TGT_VOCAB, B, H, T
from hypothesis import given
from hypothesis import strategies as st
from parity import assert_equal, assert_parity
from random_inputs import make_generator, randomize, seeded, tiny_config, torch_stack
from reference import encoding_by_loops
from torch.nn import functional as F

from course_lib.decoder_only import DecoderOnly, random_windows
from course_lib.interop import load_from_torch
from course_lib.positions import PositionalEncoding

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


def attentions(model):
    return [layer.self_attn for layer in model.stack.layers]


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


def test_the_generator_or_else_torchs_own_decides_which_windows_are_drawn():
    text, state = torch.arange(1000), torch.get_rng_state()
    one, again, other = (random_windows(text, 9, 4, make_generator(seed)) for seed in (1, 1, 2))
    assert_equal(one, again)
    assert not one[0].equal(other[0])
    assert torch.get_rng_state().equal(state)
    with seeded(3):
        drawn = random_windows(text, 9, 4)
    with seeded(3):
        assert_equal(random_windows(text, 9, 4), drawn)


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


def test_positions_are_fixed_by_default_and_head_widths_reach_every_layer():
    model = DecoderOnly(config(d_k=4, d_v=9))
    assert isinstance(model.positions, PositionalEncoding)
    widths = [(s.w_k.out_features, s.w_v.out_features) for s in attentions(model)]
    assert widths == [(4 * H, 9 * H)] * N


def test_matrices_are_initialized_as_in_the_whole_model():
    with seeded():
        model = DecoderOnly(config(tgt_vocab_size=900, d_model=64, num_heads=4, d_ff=96))
    # the standard deviation of 57,600 draws is accurate to 0.3%
    assert model.embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    for matrix in (p for p in model.stack.parameters() if p.dim() > 1):
        bound = math.sqrt(6 / sum(matrix.shape))  # Glorot and Bengio: uniform
        assert 0.98 * bound < matrix.abs().max() <= bound
