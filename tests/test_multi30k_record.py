"""The committed record is what the commands of ``docs/results.md`` make."""

from statistics import fmean

import corpus_stats as measured
import pytest

from course_lib.tasks.multi30k import SIZES, RealConfig
from course_lib.tasks.multi30k_record import (
    CAPTIONS,
    read_corpus_facts,
    read_record,
    written_captions,
)

TEST = [entry for entry in read_record() if entry["split"] == "test_2016_flickr"]
MADE_BY = {28: RealConfig(), 10: RealConfig(**SIZES["short"])}  # by the epochs


@pytest.mark.parametrize("entry", TEST, ids=lambda entry: f"{entry['epochs']}-{entry['seed']}")
def test_the_commands_of_the_page_make_the_record(entry):
    kept = dict(entry["config"])
    assert kept.pop("seed") == entry["seed"]
    expected = vars(MADE_BY[entry["epochs"]])
    assert kept == {name: value for name, value in expected.items() if name != "seed"}


def test_the_test_set_was_read_once_by_each_training():
    assert sorted((e["epochs"], e["seed"]) for e in TEST) == [(10, 0), (10, 1), (10, 2), (28, 0)]


@pytest.mark.parametrize(("direction", "side"), [("de-en", 0), ("en-de", 1)])
def test_captions_are_read_in_the_language_that_is_translated_from(direction, side):
    both = written_captions(direction, lambda texts: [text.upper() for text in texts])
    assert both == [[pair[side], pair[side].upper()] for pair in CAPTIONS]


TRAIN = [("Die Lehrerin, die Lehrerin", "the teacher ."), ("Ein rotes Rad", "a red bike")]
VAL = [("Die rotes Katze .", "the the red cat")]


def test_new_words_are_counted_by_occurrence_and_without_punctuation():
    assert measured.new_words(TRAIN, VAL) == pytest.approx({"German": 1 / 3, "English": 1 / 4})


def test_words_of_our_own_caption_are_counted_in_the_german_of_train():
    seen = measured.seen_words(TRAIN)
    assert seen == {"Die": 1, "Lehrerin": 2, "erklärt": 0, "warum": 0, "der": 0, "Transformer": 0,
                    "kein": 0, "Gedächtnis": 0, "braucht": 0}  # fmt: skip
    assert list(seen) == list(read_corpus_facts()["seen_words"])


def test_subword_tokens_are_counted_without_the_marks_around_a_target():
    facts, rows = measured.vocabulary(TRAIN * 20, 60)
    assert facts["German"] == fmean(len(source) for source, _ in rows)
    assert facts["English"] == fmean(len(target) - 2 for _, target in rows)
    assert facts["parameters"] == facts["pieces"] * 256
    assert {(target[0], target[-1]) for _, target in rows} == {(1, 2)}
