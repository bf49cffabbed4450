"""Positions agree with the paper's formula and are added to every sentence in the same way."""

import pytest
import torch
from dimensions import B, T
from parity import assert_equal, trace
from random_inputs import normal
from reference import encoding_by_loops
from torch import nn

from course_lib.positions import LearnedPositionalEmbedding, PositionalEncoding, sinusoidal_encoding

WIDTH, MAX_LEN = 6, 9
BOTH_KINDS = pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEmbedding])


def table_of(module):
    """Return the positions that a module adds."""
    return module.encoding if isinstance(module, PositionalEncoding) else module.weight


@pytest.mark.parametrize("d_model", [1, 2, 5, 6])
def test_encoding_agrees_with_the_formula_of_the_paper(d_model):
    expected = encoding_by_loops(MAX_LEN, d_model).float()  # where the table is kept
    torch.testing.assert_close(sinusoidal_encoding(MAX_LEN, d_model), expected, rtol=0, atol=1e-7)


@BOTH_KINDS
@pytest.mark.parametrize("length", [1, T, MAX_LEN])
def test_learned_positions_agree_with_an_embedding_of_positions_from_0(generator, kind, length):
    ours, theirs = kind(WIDTH, MAX_LEN).double(), nn.Embedding(MAX_LEN, WIDTH).double()
    theirs.weight.data.copy_(table_of(ours))
    x = [normal(generator, B, length, WIDTH)]
    mine = trace(ours, x, ours)
    other = trace(lambda x: x + theirs(torch.arange(length)), x, theirs)
    if kind is PositionalEncoding:
        assert mine["parameters"] == ours.state_dict() == {}  # fixed, and not saved
        assert ours.encoding.dtype == torch.float64  # it moves with the module
        del other["parameters"], mine["parameters"]
    assert_equal(mine, other)  # so positions after the sentence do not learn


def test_learned_positions_are_saved_and_have_small_initial_values():
    module = LearnedPositionalEmbedding(64, 1000)
    assert module.state_dict().keys() == {"weight"}
    # the standard deviation of 64,000 draws is accurate to 0.3%
    assert module.weight.std().item() == pytest.approx(0.02, rel=0.03)
