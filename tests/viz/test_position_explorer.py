"""The position explorer agrees with the answers in chapter 03."""

import pytest
from explorer_numbers import numbers
from figure_asserts import answer_of_chapter

from course_lib.viz.position_explorer import PositionExplorer


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
