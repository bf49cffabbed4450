"""The beam explorer searches the language of chapter 14, and agrees with the chapter."""

import math

import nbformat
import pytest
from explorer_numbers import ENDED, HOW, SOURCE, Language, numbers
from figure_asserts import NOTEBOOKS, answer_of_chapter

from course_lib.beam_search import beam_search
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


@pytest.mark.parametrize("beam_size", SIZES)
def test_the_pool_agrees_with_the_search_and_its_best_is_the_best_of_all(beam_size, chapter):
    assert chapter["weather"] == WEATHER
    for alpha in ALPHAS:
        explorer = BeamExplorer(beam_size=beam_size, alpha=alpha, step=9)
        drawn, how = numbers(explorer), HOW | {"beam_size": beam_size, "alpha": alpha}
        found = beam_search(Language(WEATHER), SOURCE, **how)[1][0].tolist()
        assert [node["score"] for node in drawn["pool"]] == pytest.approx(found)
        assert len(drawn["columns"]) <= 5  # the tree has room for five steps
        every = [
            math.log(p) / ((5 + len(words.split())) / 6) ** alpha for p, words in chapter["ranking"]
        ]
        assert drawn["best"]["score"] == pytest.approx(max(every))


def test_the_question_of_chapter_14_has_the_printed_answer(chapter):
    answer = answer_of_chapter(BeamExplorer)
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


@pytest.mark.parametrize(
    ("sentence", "followed"),
    [
        ("it end", {1: "it", 2: "it end", 3: "it end", 4: "it end"}),
        ("snow falls", {1: "it", 2: "snow", 3: "snow falls", 4: "snow falls"}),
    ],
)
def test_a_followed_sentence_stays_the_same_when_the_beam_size_changes(sentence, followed):
    explorer = BeamExplorer(sentence=sentence)
    for explorer.beam_size, text in followed.items():
        assert numbers(explorer)["followed"]["text"] == text
