"""What is counted of the corpus for chapter 17: new words, our own caption's, subword tokens."""

from statistics import fmean

import corpus_stats as measured
import pytest

from course_lib.trainer.results import read_record

TRAIN = [("Die Lehrerin, die Lehrerin", "the teacher ."), ("Ein rotes Rad", "a red bike")]
VAL = [("Die rotes Katze .", "the the red cat")]


def test_new_words_are_counted_by_occurrence_and_without_punctuation():
    assert measured.new_words(TRAIN, VAL) == pytest.approx({"German": 1 / 3, "English": 1 / 4})


def test_words_of_our_own_caption_are_counted_in_the_german_of_train():
    seen = measured.seen_words(TRAIN)
    assert seen == {"Die": 1, "Lehrerin": 2, "erklärt": 0, "warum": 0, "der": 0, "Transformer": 0,
                    "kein": 0, "Gedächtnis": 0, "braucht": 0}  # fmt: skip
    assert list(seen) == list(read_record("multi30k_corpus")[0]["seen_words"])


def test_subword_tokens_are_counted_without_the_marks_around_a_target():
    facts, rows = measured.vocabulary(TRAIN * 20, 60)
    assert facts["German"] == fmean(len(source) for source, _ in rows)
    assert facts["English"] == fmean(len(target) - 2 for _, target in rows)
    assert facts["parameters"] == facts["pieces"] * 256
    assert {(target[0], target[-1]) for _, target in rows} == {(1, 2)}
