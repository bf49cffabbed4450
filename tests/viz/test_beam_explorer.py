"""The beam explorer has the language of chapter 14, and agrees with its answers."""

import math

import nbformat
import pytest
from explorer_numbers import ENDED, numbers
from figure_asserts import NOTEBOOKS, answer_of_chapter

from course_lib.viz.beam_explorer import WEATHER, BeamExplorer

SIZES, ALPHAS = (1, 2, 3, 4), [n / 10 for n in range(21)]


@pytest.fixture(scope="module")
def chapter():
    """Run the cells of chapter 14 that define its language and list all sentences."""
    cells = nbformat.read(NOTEBOOKS / "14_beam_search.ipynb", as_version=4).cells
    names: dict = {}
    for cell in cells:
        if cell.source.startswith(("names = [", "def all_sentences(", "ranking = ")):
            exec(cell.source, names)
    return names


def test_the_question_of_chapter_14_has_the_printed_answer(chapter):
    answer = answer_of_chapter(BeamExplorer)
    assert chapter["weather"] == WEATHER
    assert chapter["ranking"][2] == (0.1, "it end")
    places = {}
    for beam_size in SIZES:
        second = numbers(BeamExplorer(beam_size=beam_size))["columns"][1]
        totals = [round(math.exp(node["total"]), 9) for node in second]
        places[beam_size] = totals.index(0.1) + 1 if 0.1 in totals else None
        assert 0.1 not in totals or second[totals.index(0.1)]["fate"] != ENDED
    assert places == {1: None, 2: 4, 3: 5, 4: 5}
    assert "K = 2 it is the fourth, and with K = 3 and K = 4 it is the fifth" in answer
    all_numbers = {alpha: numbers(BeamExplorer(alpha=alpha)) for alpha in ALPHAS}
    assert len({drawn["greedy"]["text"] for drawn in all_numbers.values()}) == 1
    lead = {a: n["greedy"]["score"] - n["best"]["score"] for a, n in all_numbers.items()}
    finds = [alpha for alpha in ALPHAS if lead[alpha] > -1e-9]
    assert finds == [alpha for alpha in ALPHAS if alpha >= 1.6]
    assert f"From α = {finds[0]} on, *it is raining* wins" in answer
    pool = all_numbers[finds[0]]["pool"]
    first, second = (f"{node['score']:.3f}".replace("-", "−") for node in pool)
    assert f"score {first}, and *rain falls* has {second}" in answer
