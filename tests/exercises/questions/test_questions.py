"""Predictions and tests that learners write are checked, and every answer gets a sentence."""

import sys

import pytest
import torch
from torch.testing import assert_close

from course_lib.exercises import check, clinic, diagnose, known_mistakes, predict, score_test
from course_lib.exercises.checking.report import UNTOUCHED
from course_lib.exercises.questions.mutation_score import TESTS, judge_test
from course_lib.exercises.questions.predictions import Prediction, judge_prediction
from course_lib.exercises.questions.question import find, questions

PREDICTIONS = [question for question in questions() if isinstance(question, Prediction)]

every_prediction = pytest.mark.parametrize("question", PREDICTIONS, ids=lambda q: q.name)
every_test = pytest.mark.parametrize("question", TESTS, ids=lambda q: q.name)


@every_prediction
def test_a_prediction_is_judged_by_its_error_and_the_true_number_stays_hidden(question):
    truth = question.truth()
    truth = truth.tolist() if isinstance(truth, torch.Tensor) else truth
    state = torch.get_rng_state()
    assert judge_prediction(question, truth).passed  # a chapter's own answer is computed by hand
    assert torch.equal(state, torch.get_rng_state())
    far = (2 * torch.as_tensor(truth) + 1).tolist()
    report = judge_prediction(question, far)
    assert not report.passed and report.attempted and question.asks in report.detail
    for guess, words in question.guesses:
        report = judge_prediction(question, guess)
        assert not report.passed and report.hint == words
    for answer in ("many", [1, "x"], {}, torch.nn.Linear(1, 1), [[1.0]], 10**400):
        report = judge_prediction(question, answer)
        assert not report.passed and "please" in report.hint
    assert (
        judge_prediction(question, ...).state == judge_prediction(question, None).state == UNTOUCHED
    )


def not_written(candidate):
    raise NotImplementedError


@every_test
def test_a_test_that_accepts_or_rejects_everything_does_not_pass(question):
    assert question.must
    known = question.wrong()
    assert set(question.must) <= set(known)
    content = judge_test(question, lambda candidate: None)
    assert not content.passed and content.mistake == "too_content"
    assert content.detail == "finds 0 of the 0 mistakes that its inputs can reveal"
    assert "must raise" in content.hint

    def strict(candidate):
        raise AssertionError("never right")

    alarm = judge_test(question, strict)
    assert not alarm.passed and alarm.mistake == "false_alarm" and "never right" in alarm.detail
    assert "fails on a correct answer" in alarm.hint
    for wrong in (lambda candidate: no_such_name, lambda candidate: sys.exit(3)):  # noqa: F821
        broken = judge_test(question, wrong)
        assert broken.mistake == "false_alarm" and "itself raises an error" in broken.hint
    for candidate in (not_written, ..., None):
        assert judge_test(question, candidate).state == "not attempted"


def test_a_good_test_is_scored_by_the_mistakes_that_it_finds():
    def my_test(causal_mask):
        mask = causal_mask(3)
        assert_close(mask, torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]]).bool())

    report = score_test("test_of_the_past", my_test)
    assert report.passed
    found, shown = (int(word) for word in report.detail.split() if word.isdigit())
    assert found == shown == len(known_mistakes("causal_mask")) - 1  # no device


def test_a_score_counts_only_mistakes_that_the_arguments_of_a_test_can_show():
    def my_test(masks):
        assert masks(1).item(), "a single token must attend to itself"

    report = score_test("test_of_the_past", my_test)
    alone = [m for m in known_mistakes("causal_mask") if m.name == "causal_without_itself"]
    assert len(alone) == 1 and not report.passed
    found, shown = (int(word) for word in report.detail.split() if word.isdigit())
    assert 1 <= found <= shown < len(known_mistakes("causal_mask")) - 1


@pytest.mark.parametrize(
    "ask, name, near",
    [
        (lambda name: check(name, print), "causal_mas", "did you mean causal_mask"),
        (known_mistakes, "causal_mas", "did you mean causal_mask"),
        (lambda name: predict(name, 16), "length_of_row_500", "length_of_row_499"),
        (lambda name: score_test(name, print), "test_of_the_pats", "test_of_the_past"),
        (
            lambda name: find(name, Prediction),
            "test_of_the_past",
            "in course_lib.exercises.questions",
        ),
        (diagnose, "loss_near_zer0", "did you mean loss_near_zero"),
        (clinic("loss_near_zero").probe, "causalty", "did you mean causality"),
    ],
)
def test_an_unknown_name_is_answered_with_similar_names(ask, name, near):
    with pytest.raises(ValueError, match=near):
        ask(name)
