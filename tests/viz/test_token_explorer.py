"""The last row of the token explorer agrees with the tokenizer of chapter 10."""

import pytest
from explorer_numbers import numbers

from course_lib.viz.token_explorer import TokenExplorer, number_tokenizer


@pytest.mark.parametrize("text", ["siebentausend", "It's 345", "七百 zwölf", "sevent", "x"])
def test_the_last_row_is_the_encoded_text(text):
    explorer = TokenExplorer(text=text)
    steps, places = numbers(explorer)["steps"], numbers(explorer)["places"]
    assert steps[-1] == number_tokenizer().encode(text)
    assert len(steps) == len(places) and places == sorted(set(places))
    assert len(steps[0]) == len(text.encode())
    made = [explorer.merges[place - 1][2] for place in places[1:]]
    assert all(new in step for new, step in zip(made, steps[1:], strict=True))


def test_the_browser_gets_every_merge_with_the_id_that_it_makes():
    merges = TokenExplorer().state()["merges"]
    tokens = number_tokenizer().tokens
    assert len(merges) == 200
    assert all(tokens[left] + tokens[right] == tokens[made] for left, right, made in merges)
