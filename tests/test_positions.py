"""Positions: the paper's formula number by number, added to every sentence alike."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    B,
    S,
    T,
    assert_equal,
    encoding_by_loops,
    make_generator,
    normal,
    randomize,
    says,
    seeded,
    trace,
)
from torch import nn

from course_lib.positions import (
    LearnedPositionalEmbedding,
    PositionalEncoding,
    sinusoidal_encoding,
)

WIDTH, MAX_LEN = 6, 9
BOTH_KINDS = pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEmbedding])


def table_of(module):
    """Return the rows that a module adds."""
    return module.encoding if isinstance(module, PositionalEncoding) else module.weight


# --- parity


@pytest.mark.parametrize("d_model", [1, 2, 5, 6])
def test_encoding_agrees_with_the_formula_of_the_paper(d_model):
    expected = encoding_by_loops(MAX_LEN, d_model).float()  # where the table is kept
    torch.testing.assert_close(sinusoidal_encoding(MAX_LEN, d_model), expected, rtol=0, atol=1e-7)


def test_numbers_worked_out_by_hand():
    # position 1 of width 4: the frequencies are 1 and 1 / 10000^(2/4) = 1 / 100
    expected = [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]
    assert sinusoidal_encoding(2, 4)[1].tolist() == pytest.approx(expected, abs=1e-7)


@BOTH_KINDS
def test_agrees_with_an_embedding_of_the_places_counted_from_0(generator, kind):
    ours, theirs = kind(WIDTH, MAX_LEN).double(), nn.Embedding(MAX_LEN, WIDTH).double()
    theirs.weight.data.copy_(table_of(ours))
    x = [normal(generator, B, T, WIDTH)]
    mine = trace(ours, x, ours)
    other = trace(lambda x: x + theirs(torch.arange(T)), x, theirs)
    if kind is PositionalEncoding:
        assert mine["parameters"] == {}  # fixed
        del other["parameters"], mine["parameters"]
    assert_equal(mine, other)


# --- properties


def test_position_0_is_sines_of_0_and_cosines_of_0():
    assert sinusoidal_encoding(1, 5).tolist() == [[0.0, 1.0, 0.0, 1.0, 0.0]]


@given(start=st.integers(0, 90), step=st.integers(0, 40), d_model=st.sampled_from([2, 6, 18]))
def test_a_step_is_the_same_rotation_from_everywhere(start, step, d_model):
    table = sinusoidal_encoding(131, d_model).double()
    for pair in range(0, d_model, 2):
        angle = step / 10000 ** (pair / d_model)
        rotation = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        ).double()
        turned = rotation @ table[start, pair : pair + 2]
        # 1e-6: the table is kept in float32
        torch.testing.assert_close(turned, table[start + step, pair : pair + 2], rtol=0, atol=1e-6)


@given(length=st.integers(2, 300), d_model=st.integers(2, 20))
def test_no_two_positions_share_a_row(length, d_model):
    table = sinusoidal_encoding(length, d_model)
    assert table.unique(dim=0).size(0) == length
    assert table.abs().max() <= 1


@given(length=st.integers(1, 20), longer=st.integers(0, 20), d_model=st.integers(1, 9))
def test_a_longer_table_begins_like_a_shorter_one(length, longer, d_model):
    assert torch.equal(
        sinusoidal_encoding(length + longer, d_model)[:length], sinusoidal_encoding(length, d_model)
    )


@BOTH_KINDS
@given(length=st.integers(1, MAX_LEN), seed=st.integers(0, 2**31))
def test_every_sentence_gets_the_same_rows(kind, length, seed):
    module = kind(WIDTH, MAX_LEN).double()
    x = normal(make_generator(seed), B, length, WIDTH)
    kept = x.clone()
    added = module(x) - x
    for sentence in range(B):
        assert_equal(added[sentence], table_of(module)[:length].detach())
    assert torch.equal(x, kept)


def test_the_encoding_is_a_buffer_that_is_not_saved():
    module = PositionalEncoding(WIDTH, MAX_LEN)
    assert list(module.parameters()) == []
    assert dict(module.named_buffers()).keys() == {"encoding"}
    assert module.state_dict() == {}


def test_the_encoding_moves_with_the_module():
    module = PositionalEncoding(WIDTH, MAX_LEN)
    assert module.double().encoding.dtype == torch.float64
    assert module.to("meta").encoding.device.type == "meta"


def test_learned_rows_are_saved_and_start_small():
    module = LearnedPositionalEmbedding(64, 1000)
    assert module.state_dict().keys() == {"weight"}
    # 64,000 draws know their spread to 0.3 %
    assert module.weight.std().item() == pytest.approx(0.02, rel=0.03)


def test_rows_beyond_the_sentence_learn_nothing(generator):
    module = randomize(LearnedPositionalEmbedding(WIDTH, MAX_LEN))
    gradient = trace(module, [normal(generator, B, T, WIDTH)], module)["parameters"]["weight"]
    assert (gradient[:T] != 0).all()
    assert (gradient[T:] == 0).all()


@BOTH_KINDS
def test_dropout_comes_after_the_sum(generator, kind):
    module, x = kind(WIDTH, MAX_LEN, dropout=0.75).double(), normal(generator, B, T, WIDTH)
    with seeded():
        output = module(x)
    dropped = output == 0  # neither the word nor its place is left
    assert 0 < dropped.sum() < dropped.numel()
    assert_equal(output[~dropped], 4 * (x + table_of(module)[:T])[~dropped])
    module.eval()
    assert_equal(module(x), x + table_of(module)[:T])


# --- limits


@BOTH_KINDS
def test_one_token_is_at_position_0(generator, kind):
    module, x = kind(WIDTH, 1).double(), normal(generator, 1, 1, WIDTH)
    assert_equal(module(x), x + table_of(module)[0])


@BOTH_KINDS
def test_a_sentence_may_be_as_long_as_the_table(generator, kind):
    module, x = kind(WIDTH, S).double(), normal(generator, B, S, WIDTH)
    assert_equal(module(x), x + table_of(module))


# --- errors


@BOTH_KINDS
def test_too_long_or_too_wide_is_refused(kind):
    module = kind(WIDTH, MAX_LEN)
    with pytest.raises(ValueError, match=says(10, "max_len=9")):
        module(torch.zeros(B, 10, WIDTH))
    with pytest.raises(ValueError, match=says("d_model=6", (B, T, 5))):
        module(torch.zeros(B, T, 5))
    with pytest.raises(ValueError, match=says("d_model=6", (6,))):
        module(torch.zeros(WIDTH))


@pytest.mark.parametrize("sizes", [(0, 6), (9, 0), (-1, 6)])
def test_sizes_below_1_are_refused(sizes):
    message = says(f"max_len={sizes[0]}", f"d_model={sizes[1]}")
    with pytest.raises(ValueError, match=message):
        sinusoidal_encoding(*sizes)
    for kind in (PositionalEncoding, LearnedPositionalEmbedding):
        with pytest.raises(ValueError, match=message):
            kind(*reversed(sizes))


@BOTH_KINDS
def test_a_share_outside_0_to_1_is_refused(kind):
    with pytest.raises(ValueError, match=says(1.5)):
        kind(WIDTH, MAX_LEN, dropout=1.5)
