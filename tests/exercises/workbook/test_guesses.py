"""A guess shows its explanation only after an answer, and it keeps every answer."""

import json
import re

import ipywidgets as widgets
import pytest

from course_lib.exercises import guess
from course_lib.exercises.workbook import guesses
from course_lib.exercises.workbook.guess_box import EMPTY, LONGEST, UNKNOWN, GuessBox

ASKED = "Is $x^2$ *twice* `x`?"
TOLD = "No, it is $x \\cdot x$ & *more* than `x`."
MATH = '<span class="math">\\(x \\cdot x\\)</span>'
HTML = f"No, it is {MATH} &amp; <em>more</em> than <code>x</code>."


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    """Change to the workbook of a course with one guess, and return its library."""
    (tmp_path / "notebooks").mkdir()
    cells = [f"guess(\n    {ASKED!r},\n    {TOLD!r},\n)", "x = 1\nguess(x)", "guess(x)"]
    cells = [{"cell_type": "code", "source": source} for source in cells]
    page = tmp_path / "notebooks" / "00_start.ipynb"
    page.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    monkeypatch.setattr(guesses, "COURSE", tmp_path)
    monkeypatch.chdir(tmp_path)
    guesses.explanations.cache_clear()
    (tmp_path / "my_lib").mkdir()
    yield tmp_path / "my_lib"
    guesses.explanations.cache_clear()


def shown(box: GuessBox) -> str:
    """Return everything that the box shows: its texts and the labels of its buttons."""
    visible = [part for part in box.children if part.layout.display != "none"]
    parts = [part for outer in visible for part in (outer, *getattr(outer, "children", ()))]
    texts = [getattr(part, "description", "") + getattr(part, "value", "") for part in parts]
    return "\n".join(filter(None, texts))


def press(box: GuessBox, label: str) -> None:
    """Press a button by its label."""
    buttons = [box.again, *box.entry.children]
    (button,) = (b for b in buttons if isinstance(b, widgets.Button) and b.description == label)
    button.click()


def type_and_enter(box: GuessBox, answer: str) -> None:
    """Type an answer into the text box, and press Enter."""
    box.text.value = answer
    box.text._handle_custom_msg({"event": "submit"}, [])


def test_the_completed_edition_folds_the_answer_below_the_question():
    worked = guess(ASKED, TOLD, choices=["yes", "no"])
    assert repr(worked) == f"Guess: {ASKED}\nChoices: yes · no\nAnswer: {TOLD}"
    question, _, answer = worked._repr_html_().partition("<details><summary>Answer</summary>")
    assert HTML in answer and "more" not in question and "yes · no" in question


@pytest.mark.parametrize("act", [type_and_enter, lambda box, answer: press(box, "Show the answer")])
def test_the_explanation_is_hidden_before_an_answer(act, library):
    box = guess(ASKED)
    assert "more" not in shown(box) + str(box._repr_mimebundle_()) and ASKED in box.question
    for empty in ("", "  \n"):
        act(box, empty)
        assert EMPTY in shown(box) and "more" not in shown(box) and not list(library.iterdir())
    box.text.value = UNKNOWN
    act(box, UNKNOWN)
    assert f"<bdi>{UNKNOWN.replace(chr(39), '&#x27;')}</bdi>" in shown(box) and HTML in shown(box)
    assert not re.search("[✓✗]", shown(box))


def test_the_answer_and_the_explanation_are_shown_when_the_cell_runs_again(library):
    type_and_enter(guess(ASKED), "yes")
    assert json.loads((library / "guesses.json").read_text("utf-8")) == {ASKED: "yes"}
    again = guess(ASKED)
    assert "<bdi>yes</bdi>" in shown(again) and HTML in shown(again)
    press(again, "Guess again")
    assert "yes" not in shown(again) and "more" not in shown(again)
    type_and_enter(again, "no")
    assert "<bdi>no</bdi>" in shown(guess(ASKED))


def test_a_choice_is_an_answer():
    box = guess(ASKED, choices=["yes", "no"])
    assert [button.description for button in box.entry.children] == ["yes", "no", UNKNOWN]
    press(box, "no")
    assert "<bdi>no</bdi>" in shown(box) and HTML in shown(box)


def test_a_changed_question_gets_a_sentence_and_its_guess_counts(library):
    box = guess("Is it three times?")
    type_and_enter(box, "yes")
    assert guesses.NOT_FOUND in shown(box) and "<bdi>yes</bdi>" in shown(box)
    assert "three" in (library / "guesses.json").read_text("utf-8")


def test_a_hostile_answer_is_shown_as_text_and_a_long_one_is_cut():
    box = guess(ASKED)
    for answer in ["<img src=x onerror=alert(1)>", "\u202eright\nto left", "\ud800", "x" * 10_000]:
        type_and_enter(box, answer)
        assert "<img" not in box.message.value and "\n" not in box.message.value
        assert len(box.message.value) < LONGEST + 300
        box.message.value.encode()
        assert box.message.value == guess(ASKED).message.value


def test_answers_need_a_library_and_a_broken_file_is_moved_aside(library, capsys):
    (library / "guesses.json").write_text('{"Why?": 1}')
    type_and_enter(guess(ASKED), "yes")
    assert (library / "guesses.json.aside-1").read_text() == '{"Why?": 1}'
    assert "guesses.json.aside-1" in capsys.readouterr().err and "yes" in shown(guess(ASKED))
    library.rename(library.with_name("elsewhere"))
    box = guess(ASKED)
    assert "yes" not in shown(box)
    type_and_enter(box, "yes")
    assert HTML in shown(box) and not library.exists()
