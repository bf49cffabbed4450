"""The mask explorer agrees with the answers in chapter 06."""

import torch
from explorer_numbers import numbers
from figure_asserts import answer_of_chapter

from course_lib.viz.mask_explorer import MAX_WORDS, MaskExplorer


def leak_of_one_cell(t: int, s: int) -> float:
    """Open one more cell than chapter 06, and return the leak in its row."""
    cells = torch.ones(MAX_WORDS, MAX_WORDS).int()
    cells[:4] = cells[:4].tril()  # the rows of the real words
    cells[t, s] = 1
    rows = ["".join(map(str, row)) for row in cells.tolist()]
    return numbers(MaskExplorer(mask="your own", cells=rows))["leaked"][t]


def test_the_question_of_chapter_06_has_the_printed_answer():
    answer, words = answer_of_chapter(MaskExplorer), MaskExplorer().target.split()
    leaks = {(t, s): leak_of_one_cell(t, s) for s in range(6) for t in range(min(s, 4))}
    most, (t, s) = max((leak, cell) for cell, leak in leaks.items())
    assert f"*{words[t]}* gives {most:.2f} of its weight to *{words[s]}*" in answer
