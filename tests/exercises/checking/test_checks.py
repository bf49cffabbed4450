"""Checks accept every correct answer, and they find and name every known mistake."""

import html
import inspect
import math
import re
from collections import Counter

import pytest
import torch
from parity import recorded_kinds
from textbooks import BOOKS
from torch import nn
from torch.nn import functional as F

from course_lib.exercises import Report, exercises, known_mistakes
from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.exercise import find_exercise, right_ways
from course_lib.exercises.checking.matching import expected_outcomes, outcome_of
from course_lib.exercises.checking.mistake import Mistake, define
from course_lib.exercises.checking.outcomes import largest, leaves
from course_lib.exercises.checking.report import Stage
from course_lib.exercises.checking.trial import try_out
from course_lib.exercises.library.later_cells import lacking
from course_lib.exercises.library.stubs import stub
from course_lib.exercises.workbook.notebook_builder import Chapter
from notebooks import pages


def styles(name):
    """Return the correct answers in all styles by name, the course's own first."""
    books = [book.ANSWERS[name] for book in BOOKS.values() if name in book.ANSWERS]
    whole = (find_exercise(name).definition, *books)
    edited = {way.name: way.implementation for way in right_ways(name)}
    return {answer.__name__: answer for answer in whole} | edited


ANSWERS = {
    f"{name}-{style}": (name, answer)
    for name in exercises()
    for style, answer in styles(name).items()
}
MISTAKES = [mistake for name in exercises() for mistake in known_mistakes(name)]
SEEN: dict = {}  # the outcomes of known mistakes, by trial and definition
# two conjunctions in a row, or a capital after a colon, except in code and in the text of an error
ODD = re.compile(
    r"\b(when|if|though|that|because) (when|if|because)\b"
    r"|(?<!Error): (?!True|False|None)(A|[A-Z][a-z]+)[ ,-]"
)
every_exercise = pytest.mark.parametrize("name", exercises())


def test_every_check_of_a_chapter_is_an_exercise_of_its_module():
    asked = [
        (chapter.module, name)
        for chapter in map(Chapter.read, pages())
        for source in chapter.sources
        for name in re.findall(r'^check\("(\w+)", \1\)', source, re.M)
    ]
    assert sorted(asked) == sorted((find_exercise(name).module, name) for name in exercises())


@pytest.mark.parametrize("name, answer", ANSWERS.values(), ids=ANSWERS)
def test_correct_answers_in_all_styles_pass(name, answer):
    report = examine(name, answer)
    assert report.passed, report
    if answer is find_exercise(name).definition:
        assert (report.complete, report.mistake, report.hint) == (True, None, "")
        assert lacking(report, answer) == ""
    elif answer.__module__.startswith("textbooks."):  # one of them has the course's names
        assert bool(lacking(report, answer)) == (answer is not BOOKS["uva"].ANSWERS["split_heads"])


@pytest.fixture
def once(monkeypatch):
    """Run each trial of a mistake once, whether it is an attempt or what an attempt looks like."""

    def remembered(trial, tried):
        if isinstance(tried, type):  # only modules are adapted, by a subclass
            key = trial, tried.__base__ if issubclass(tried, nn.Module) else tried
        else:
            key = trial, tried.__wrapped__
        if key not in SEEN:
            SEEN[key] = try_out(trial, tried)
        return SEEN[key]

    for function in (examine, outcome_of):
        monkeypatch.setattr(inspect.getmodule(function), "try_out", remembered)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: f"{m.exercise}-{m.name}")
def test_every_known_mistake_is_found_and_named(mistake, once):
    report = examine(mistake.exercise, mistake.implementation)
    assert report.attempted
    assert not report.complete, "the check accepts this mistake: add a trial that fails for it"
    assert report.passed == all(stage.held for stage in report.stages if stage.core)
    assert report.mistake == mistake.name and mistake.sentence in report.hint
    assert not report.second
    assert not ODD.search(repr(report)), report
    failed = " · ".join(stage.name for stage in report.stages if not stage.held)
    recorded = recorded_kinds().get((mistake.exercise, mistake.name))
    assert (failed, report.kind) == recorded, "run: make sync"
    completes = len(mistake.sentence.split()) >= 3 and not mistake.sentence.endswith(".")
    assert completes, "complete this, without a period: This is what you get when …"


@every_exercise
def test_the_known_mistakes_of_an_exercise_have_different_names(name):
    names = Counter(mistake.name for mistake in known_mistakes(name))
    assert names, "add a known mistake"
    assert max(names.values()) == 1, f"two mistakes have the same name: {names.most_common(1)}"


@every_exercise
def test_every_error_that_a_stub_promises_is_asked_for(name):
    exercise = find_exercise(name)
    definition = exercise.definition
    methods = [vars(definition)[method] for method in exercise.methods]
    promised = sum(
        len(re.findall("aises ValueError", inspect.getsource(x))) for x in methods or [definition]
    )
    asked = [value for seen in expected_outcomes(name) for _, value in leaves(seen.values)]
    assert asked.count("raises ValueError") >= promised
    assert not exercise.rejects or asked.count("raises ValueError") >= len(exercise.rejects)


@every_exercise
def test_an_untouched_stub_is_not_attempted(name):
    exercise = find_exercise(name)
    source = stub(inspect.getsource(exercise.definition), exercise.stubs)
    report = examine(name, define(source, exercise.module, name, f"<stub of {name}>"))
    assert (report.state, report.mistake) == ("not attempted", None)
    assert "NotImplementedError" in report.hint


def test_a_constructor_without_a_forward_is_reported_as_unfinished():
    class LayerNorm(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d_model))
            self.bias = nn.Parameter(torch.zeros(d_model))

        def forward(self, x):
            raise NotImplementedError

    report = examine("LayerNorm", LayerNorm)
    assert report.state == "not yet" and "forward is not written yet" in report.hint


@pytest.mark.parametrize("name", ["causal_mask", "LayerNorm"])
def test_a_check_says_that_a_stub_is_not_an_attempt(name):
    for candidate in (None, ..., 5, "text", torch.ones(3), [], nn.Linear(2, 2)):
        report = examine(name, candidate)
        assert not report.passed and report.hint
    assert "class itself" in examine("LayerNorm", lambda x: x).hint
    assert "function itself" in examine("causal_mask", nn.Linear).hint


def calls_the_kernel(query, key, value, mask=None):
    output = F.scaled_dot_product_attention(query, key, value, mask)
    return output, query @ key.mT


class WrapsTorchAttention(nn.Module):
    def __init__(self, d_model, num_heads, **_):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, query, key, value, mask=None, *, need_weights=False):
        return self.inner(query, key, value, need_weights=need_weights)


@pytest.mark.parametrize(
    "name, candidate, word",
    [
        ("scaled_dot_product_attention", calls_the_kernel, "kernel"),
        (
            "causal_mask",
            lambda *x: find_exercise("causal_mask").definition(*x),
            "course's own",
        ),
        ("MultiHeadAttention", WrapsTorchAttention, "torch's own"),
        ("LayerNorm", nn.LayerNorm, "torch"),
    ],
)
def test_calling_the_course_definition_is_not_an_answer(name, candidate, word):
    report = examine(name, candidate)
    assert not report.passed and report.mistake is None
    assert word in report.hint


def test_a_check_does_not_leave_a_trace():
    state = torch.get_rng_state()
    wrong = known_mistakes("MultiHeadAttention")[-1].implementation
    first, second = (examine("MultiHeadAttention", wrong) for _ in range(2))
    assert first.kind is not None
    one, other = (examine("LayerNorm", find_exercise("LayerNorm").definition) for _ in range(2))
    assert torch.equal(state, torch.get_rng_state())
    assert first == second and one == other


def test_a_mistake_that_no_longer_fits_the_source_is_reported():
    lost = Mistake("causal_mask", "masks", "lost", "", (("no such words", ""),))
    with pytest.raises(ValueError, match="no such words"):
        _ = lost.implementation


def test_a_report_is_shown_as_text():
    box = Report("x", False, "a_name", "This <b> & that", "shape", "1 < 2")._repr_html_()
    assert html.escape("This <b> & that") in box and "<b>" not in box and "1 &lt; 2" in box
    box = Report("x", False, hint="Call `a(b)` *twice*, not 2 * 3 * 4.")._repr_html_()
    assert "Call <code>a(b)</code> <em>twice</em>, not 2 * 3 * 4." in box
    assert not re.search(r"[^-]color:", box), "text has the color of the theme"
    stages = Stage("formula", True, True), Stage("mask", True, False, True)
    box = repr(Report("x", False, stages=(*stages, Stage("bias", False, False, True))))
    assert box.split("\n")[1] == "core: ✓ formula ✗ mask · extras: ○ bias"


def test_the_entry_with_the_largest_error_is_compared_in_a_table():
    right = torch.ones(3, 4)
    right[0, 1] = -math.inf  # in both
    mine = right.clone()
    mine[1, 2], mine[2, 3] = -5.0, 4.9
    detail = largest("output", mine, right)
    cells = re.findall("<td[^>]*>(.*?)</td>", Report("x", False, detail=detail)._repr_html_())
    assert cells == ["", "yours", "expected", "output[1, 2]", "-5", "1"]
