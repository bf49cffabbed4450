"""Predictions and learners' tests: right ones pass, wrong ones hear why, and nothing raises."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from course_lib.exercises import known_mistakes, predict, score_test
from course_lib.exercises.catalogue import find, tasks
from course_lib.exercises.mutation_score import TESTS, judge_test
from course_lib.exercises.predictions import Prediction, judge_prediction

PREDICTIONS = [task for task in tasks() if isinstance(task, Prediction)]

TRUTHS = {  # worked out by hand
    "scores_of_two": [2, 2],  # 2·1 + 0·1 and 1·1 + 1·1
    "weights_of_the_picture": [2.03 / 40.8, 0.346 / 40.8, 4.11 / 40.8, 34.3 / 40.8],  # e^score
    "where_two_ends": [1, 1],  # the mean of three words that get a third each
    "variance_divided_by_d_k": 1 / 64,  # 64 / 64²
    "parameters_of_sixteen_heads": 4 * 512 * 512,
    "length_of_row_499": 16,  # √256 pairs of sin² + cos² = 1
    "largest_after_norm": 3**0.5,  # (1 - 1/4) / √(3/16)
    "parameters_of_feed_forward": 3 * 5 + 5 + 5 * 3 + 3,
    "loss_of_a_leak": 2.302585 / 4,
    "distance_without_positions": 0,
    "parameters_more_in_decoder": 4 * (512**2 + 512) + 2 * 512,
    "parameters_of_the_big_model": 214.245376,
    "batch_by_hand": [[1, 83, 2, 0, 0, 0], [1, 40, 121, 2, 0, 0], [1, 95, 40, 121, 62, 2]],
    "loss_of_400_pieces": 5.991465,
    "tokens_read_for_ten": 55,  # 1 + 2 + … + 10
    "positions_copied": 256 * 255 / 2,
    "numbers_kept": 2 * 6 * 512 * (30 + 20),
    "continuations_of_a_step": 2 * 4,
    "clipped_precision": (2 + 1 + 1 + 1) / 7,  # the, cat, on, mat
    "rate_of_linking_everything": 1 - 2 * 4 / (16 + 4),
    "share_of_padding_of_two": (8 + 8) / (2 * 12 + 2 * 12),
    "first_loss": 4.174387,  # ln 65
    "parameters_of_gpt2": (50_257 + 1024) * 768  # tables; layers; two vectors of the last norm
    + 12 * (12 * 768**2 + (3 + 1 + 4 + 1) * 768 + 2 * 2 * 768)
    + 2 * 768,
    "cache_of_a_later_model": 1,  # 2 · 32 · 8 · 128 · 8192 · 2 bytes are 2^30
    "rows_of_k_proj": 3 * 64,
    "length_where_attention_rules": 3072,  # 2 · 2 · n² · d = 2 · n · (4 · d² + 2 · d · 4 · d)
    "memory_of_a_share": 14,  # 7 · 4 · 4 / 8
}

CHAPTERS = sorted(Path(__file__).resolve().parents[2].glob("notebooks/*.ipynb"))

every_prediction = pytest.mark.parametrize("task", PREDICTIONS, ids=lambda task: task.name)
every_test = pytest.mark.parametrize("task", TESTS, ids=lambda task: task.name)


def test_every_chapter_asks_for_a_prediction_or_two_and_those_of_the_model_for_one_test():
    asked = [(task.chapter, task.kind) for task in tasks()]
    assert asked == sorted(asked)
    for number in (int(chapter.name[:2]) for chapter in CHAPTERS):
        if number == 15:  # which asks for diagnoses
            continue
        assert asked.count((number, "write the test")) in ((1,) if number < 14 else (0, 1))
        assert asked.count((number, "predict")) in (1, 2)
    assert {number for number, _ in asked} <= {int(chapter.name[:2]) for chapter in CHAPTERS}
    assert len({task.name for task in tasks()}) == len(tasks())


@every_prediction
def test_the_truth_is_right_and_what_is_far_off_or_a_known_guess_is_not(task):
    truth = task.truth()
    truth = truth.tolist() if isinstance(truth, torch.Tensor) else truth
    assert judge_prediction(task, truth).passed and judge_prediction(task, TRUTHS[task.name]).passed
    far = (2 * torch.as_tensor(truth) + 1).tolist()
    report = judge_prediction(task, far)
    assert not report.passed and report.attempted and task.asks in report.detail
    for guess, words in task.guesses:
        report = judge_prediction(task, guess)
        assert not report.passed and report.hint == words


@every_prediction
def test_what_is_no_number_is_answered_in_words(task):
    for answer in ("many", [1, "x"], {}, torch.nn.Linear(1, 1), [[1.0]]):
        report = judge_prediction(task, answer)
        assert not report.passed and "please" in report.hint
    for answer in (..., None):
        assert judge_prediction(task, answer).state == "not attempted"


def not_written(candidate):
    """Be a test that nobody has written yet."""
    raise NotImplementedError


@every_test
def test_a_content_test_and_a_strict_one_are_told_apart(task):
    assert task.must
    known = task.wrong()
    assert set(task.must) <= set(known)
    content = judge_test(task, lambda candidate: None)
    assert not content.passed and content.mistake == "too_content"
    assert content.detail.startswith(f"finds 0 of all {len(known)} known mistakes")
    assert "must raise" in content.hint

    def strict(candidate):
        raise AssertionError("never right")

    alarm = judge_test(task, strict)
    assert not alarm.passed and alarm.mistake == "false_alarm" and "never right" in alarm.detail
    assert "fails on a right answer" in alarm.hint
    broken = judge_test(task, lambda candidate: no_such_name)  # noqa: F821
    assert broken.mistake == "false_alarm" and "an error of its own" in broken.hint
    for candidate in (not_written, ..., None):
        assert judge_test(task, candidate).state == "not attempted"


def test_a_good_test_is_scored_by_what_it_finds():
    def my_test(causal_mask):
        mask = causal_mask(3)
        assert_close(mask, torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]]).bool())

    report = score_test("test_of_the_past", my_test)
    assert report.passed
    found, total = (int(word) for word in report.detail.split() if word.isdigit())
    assert found == total - 1 and total == len(known_mistakes("causal_mask"))  # no device


def test_an_unknown_task_names_its_neighbours():
    with pytest.raises(ValueError, match="test_of_the_past"):
        score_test("test_of_the_pats", print)
    with pytest.raises(ValueError, match="length_of_row_499"):
        predict("length_of_row_500", 16)
    with pytest.raises(ValueError, match="no task 'test_of_the_past'"):
        find("test_of_the_past", type(PREDICTIONS[0]))
