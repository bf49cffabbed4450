"""The position explorer agrees with the answers in chapter 03."""

import pytest
from explorer_numbers import numbers, position_vectors
from figure_asserts import answer_of_chapter
from torch.testing import assert_close

from course_lib.positions import sinusoidal_encoding
from course_lib.viz.position_explorer import PositionExplorer

# the record: experiments/learned_positions.py
MAX_LEN, TRAINED, D_MODEL = 64, 48, 32


def test_base_ten_thousand_is_the_papers_and_other_bases_rotate_at_other_speeds():
    for positions, d_model in ((8, 4), (64, 128)):
        table = position_vectors(PositionExplorer(positions=positions, d_model=d_model))
        assert_close(table.float(), sinusoidal_encoding(positions, d_model))
    pair = numbers(PositionExplorer(positions=8, d_model=4, base=100))["table"][6][2:]
    assert pair == pytest.approx([0.564642, 0.825336], abs=1e-6)  # sin and cos of 6 / √100


def test_learned_positions_distinguish_near_from_far_within_the_trained_length():
    explorer = PositionExplorer(kind="learned", positions=MAX_LEN)
    table, trained = position_vectors(explorer), TRAINED
    assert table.shape == (MAX_LEN, D_MODEL)
    products = table[:trained] @ table[:trained].T
    mean = [products.diagonal(k).mean() for k in (0, 1, 4, 12)]
    assert mean == sorted(mean, reverse=True) and mean[0] > 5 * mean[3]
    assert table[trained:].abs().max() < 0.1 < table[:trained].std()


def test_the_question_of_chapter_03_has_the_printed_answer():
    answer = answer_of_chapter(PositionExplorer)

    def similar(**state) -> int:
        return numbers(PositionExplorer(**state))["similar"]

    near = {width for width in range(4, 66, 2) if abs(similar(d_model=width) - 40) == 1}
    assert near == set(range(12, 66, 2))
    before = similar(d_model=10)
    after = 80 - before  # as far from 40
    assert f"At width 10, positions {before} and {after} are the most similar to 40." in answer
    for kind in ("sinusoidal", "RoPE", "none"):
        drawn = numbers(PositionExplorer(kind=kind))
        assert drawn["lows"] == pytest.approx(drawn["highs"])
