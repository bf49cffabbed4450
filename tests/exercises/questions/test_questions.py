"""Predictions and tests that learners write are checked, and every answer gets a sentence."""

import math
import sys

import pytest
import torch
from torch.testing import assert_close

from course_lib.exercises import check, clinic, predict, score_test
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


def test_an_answer_that_is_a_function_is_called_and_its_mistake_is_explained():
    def wrong(query, keys):
        return (query @ keys).softmax(dim=-1)

    report = predict("weights_of_the_picture", wrong)
    assert not report.passed and "mat1 and mat2" in report.hint
    assert "write A @ B.mT" in report.hint and "line: return (query @ keys)" in report.detail
    right = lambda query, keys: (keys @ query / 2**0.5).softmax(dim=-1)  # noqa: E731
    assert predict("weights_of_the_picture", right).passed
    halved = lambda query, keys: (keys @ query / 2).softmax(dim=-1)  # noqa: E731
    assert "square root" in predict("weights_of_the_picture", halved).hint
    assert predict("weights_of_the_picture", not_written).state == UNTOUCHED


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_tensor_or_an_array_with_one_element_is_a_number(shape):
    right = torch.full(shape, find("parameters_of_gpt2", Prediction).truth(), dtype=torch.float64)
    for answer in (right, right.numpy(), right.clone().requires_grad_()):
        assert predict("parameters_of_gpt2", answer).passed
        assert not predict("parameters_of_gpt2", answer + 1).passed
    assert "please" in predict("parameters_of_gpt2", right.expand(2, *shape)).hint


DONE = "Your test catches every required mistake"


def not_written(*_):
    raise NotImplementedError


@every_test
def test_a_test_that_accepts_or_rejects_everything_does_not_pass(question):
    assert question.must
    known = question.wrong()
    assert set(question.must) <= set(known)
    content = judge_test(question, lambda candidate: None)
    assert not content.passed and content.mistake == "too_content"
    assert content.detail == "So far, it catches 0 of the 0 mistakes that its inputs can reveal."
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
    assert report.detail == f"{DONE}, and every other one that its inputs can reveal."


def places(checks):
    """Test a positional encoding for one of two requirements, or for both."""

    def my_test(encoding_class):
        rows = encoding_class(6, 10)(torch.zeros(2, 4, 6))
        assert "sentences" not in checks or torch.equal(rows[1], rows[0])
        assert "words" not in checks or not torch.equal(rows[0, 0], rows[0, 1])

    return my_test


def keeps(names):
    """Test a cache's keys, its values, or both, after a reordering."""

    def my_test(cache_class):
        cache, rows = cache_class(8), torch.tensor([2, 0, 0])
        tokens = dict(keys=torch.randn(3, 4, 5, 6), values=torch.randn(3, 4, 5, 7))
        cache.append(*tokens.values())
        cache.reorder(rows)
        new = torch.ones(3, 4, 1, 6), torch.ones(3, 4, 1, 7)
        for name, x in zip(tokens, cache.append(*new), strict=True):
            assert name not in names or torch.equal(x[:, :, :5], tokens[name][rows])

    return my_test


@pytest.mark.parametrize(
    "question, test, demands",
    [
        ("test_of_places", places, ("sentences", "words")),
        ("test_of_the_cache", keeps, ("keys", "values")),
    ],
)
def test_a_test_that_leaves_out_one_demand_does_not_pass(question, test, demands):
    assert score_test(question, test(demands)).passed
    for left_out in demands:
        report = score_test(question, test([name for name in demands if name != left_out]))
        assert report.mistake == "too_content"


def test_a_passed_test_names_the_mistakes_that_it_does_not_find():
    def half(attention):
        q, k, v = torch.randn(4, 6), torch.randn(5, 6), torch.randn(5, 7)
        _, weights = attention(q, k, v)
        assert_close(weights, (q @ k.T / 6**0.5).softmax(-1))
        attention(q, k, v, torch.ones(4, 5).tril().bool())

    detail = score_test("test_of_attention", half).detail
    assert "Other tests are for: mask inverted, mask ignored, " in detail and detail.endswith(
        " more"
    )


def test_the_score_says_when_the_sizes_of_the_inputs_hide_a_mistake():
    def shapes(d_v):
        def my_test(attention):
            output, _ = attention(torch.randn(4, 6), torch.randn(5, 6), torch.randn(5, d_v))
            assert output.shape == (4, d_v)

        return my_test

    assert "make d_v ≠ d_k" in score_test("test_of_attention", shapes(6)).hint
    assert "d_v ≠ d_k" not in score_test("test_of_attention", shapes(7)).hint


ROUNDED = " If its numbers are rounded, write `assert_close(…, rtol=0, atol=0.01)`."


def close_to_two_decimals(share):
    assert_close(share(torch.tensor([[1.0, 0.0]])), torch.tensor([[0.73, 0.27]]))


def equal_to_a_formula(share):
    assert share(torch.tensor([[3.0, 0.0]]))[0, 0].item() == math.exp(3) / (1 + math.exp(3))


@pytest.mark.parametrize(
    "test, advice",
    [
        (close_to_two_decimals, ROUNDED),
        (equal_to_a_formula, " Try `assert_close`."),
    ],
)
def test_a_false_alarm_comes_with_advice_that_helps(test, advice):
    hint = score_test("test_of_shares", test).hint
    assert hint == f"A false alarm: your test fails on a correct answer.{advice}"


@pytest.mark.parametrize(
    "ask, name, near",
    [
        (lambda name: check(name, print), "causal_mas", "did you mean causal_mask"),
        (lambda name: predict(name, 16), "length_of_row_500", "length_of_row_499"),
        (lambda name: score_test(name, print), "test_of_the_pats", "test_of_the_past"),
        (clinic("loss_near_zero").probe, "causalty", "did you mean causality"),
    ],
)
def test_an_unknown_name_is_answered_with_similar_names(ask, name, near):
    with pytest.raises(ValueError, match=near):
        ask(name)
