"""The attention explorer agrees with the answers in chapter 01."""

import pytest
from explorer_numbers import KEYS, numbers
from figure_asserts import answer_of_chapter

from course_lib.viz.attention_explorer import AttentionExplorer

WIDTHS = [2**n for n in range(10)]
SATURATED = 1e-3


def test_the_question_of_chapter_01_has_the_printed_answer():
    answer, first = answer_of_chapter(AttentionExplorer), AttentionExplorer()
    assert KEYS[3].tolist() == [first.x, first.y]
    undivided = {d_k: numbers(AttentionExplorer(d_k=d_k, divide=False)) for d_k in WIDTHS}
    gone = [d_k for d_k in WIDTHS if undivided[d_k]["gradient"] < SATURATED]
    assert gone and gone == [d_k for d_k in WIDTHS if d_k >= gone[0]]
    cooled = numbers(AttentionExplorer(d_k=64, divide=False, temperature=8))
    assert cooled["weights"] == pytest.approx(numbers(first)["weights"])
    assert "the temperature to 8, which is √64" in answer
    at_64 = {place: undivided_at(*place) for place in [(0.1, 0.1), (2, -1), (2, 1), (-2, 1)]}
    assert [place for place in at_64 if at_64[place]["gradient"] > SATURATED] == [*at_64][:2]
    assert at_64[2, -1]["weights"] == pytest.approx([0.5, 0, 0, 0.5], abs=1e-6)
    assert "as *three* and *five* do at [2, −1]" in answer


def undivided_at(x: float, y: float) -> dict:
    """Compute the numbers for a query of width 64, without the division by √64."""
    return numbers(AttentionExplorer(x=x, y=y, d_k=64, divide=False))
