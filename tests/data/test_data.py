"""The numbers, splits, tokenizer and batches of the translation task are as described."""

import binascii
import itertools
import random
from collections import defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parity import says

from course_lib.data import (
    LANGUAGES,
    LIMIT,
    BatchMaker,
    Tokenizer,
    check_number_words,
    draw_pairs,
    pad_rows,
    spell,
)
from course_lib.data.number_words import SPLITS, draw_numbers, split_of

pytestmark = pytest.mark.usefixtures("no_network")

NUM_TRAIN, VOCAB = 600, 150


@pytest.fixture(scope="module", params=LANGUAGES)
def to(request):
    return request.param


@pytest.fixture(scope="module")
def texts(to):
    """Return training texts of both languages."""
    return [text for pair in draw_pairs("train", NUM_TRAIN, to=to) for text in pair]


@pytest.fixture(scope="module")
def tokenizer(texts):
    """Return a tokenizer that was trained only on these texts."""
    return Tokenizer.learn(texts, VOCAB)


@pytest.fixture(scope="module")
def small():
    """Return a few pairs, and a tokenizer that knows their letters."""
    pairs = draw_pairs("train", 90)
    return pairs, Tokenizer.learn((text for pair in pairs for text in pair), 70)


# --- numbers in words


@pytest.mark.parametrize(
    ("number", "en", "de", "fr", "zh"),
    [
        (0, "zero", "null", "zéro", "〇"),  # CLDR writes 〇 for 零
        (45, "forty-five", "fünfundvierzig", "quarante-cinq", "四十五"),
        (10_000, "ten thousand", "zehntausend", "dix mille", "一万"),  # 万: ten thousands
    ],
)
def test_numbers_are_spelled_correctly(number, en, de, fr, zh):
    assert [spell(number, to) for to in ("en", "de", "fr", "zh")] == [en, de, fr, zh]


def test_numbers_that_cannot_be_spelled_or_drawn_are_explained():
    with pytest.raises(ValueError, match=says("'German'", *LANGUAGES)):
        spell(5, "German")
    for number in (-7, 10**15):
        with pytest.raises(ValueError, match=says(repr(number), "0")):
            spell(number, "en")
    with pytest.raises(ValueError, match=says("'dev'", *SPLITS)):
        draw_numbers("dev", 5)
    for count in (0, 50_001):
        with pytest.raises(ValueError, match=says(count, 50_000)):
            draw_numbers("train", count)


# --- splits


def test_a_number_belongs_to_one_split_on_every_computer():
    splits = defaultdict(set)
    for number in [*range(100, 3000), *range(LIMIT - 1000, LIMIT)]:
        tenth = binascii.crc32(str(number).encode()) % 10  # hash() differs between processes
        splits[tenth].add(split_of(number))
    assert sorted(splits) == list(range(10))
    assert sorted(map(sorted, splits.values())) == [["test"], *[["train"]] * 8, ["valid"]]
    assert {split_of(number) for number in range(100)} == {"train"}


@given(split=st.sampled_from(SPLITS), count=st.integers(1, 300), seed=st.integers(-3, 99))
def test_the_same_seed_draws_the_same_numbers(split, count, seed):
    numbers = draw_numbers(split, count, seed=seed)
    assert numbers == draw_numbers(split, count, seed=seed)
    assert len(numbers) == count
    assert split == "train" or len(set(numbers)) == count  # no held-out number counts twice
    assert all(0 <= number < LIMIT and split_of(number) == split for number in numbers)


def test_drawing_does_not_change_the_callers_random_numbers(small):
    states = random.getstate(), torch.get_rng_state()
    draw_numbers("train", 20, seed=5)
    BatchMaker(*small, batch_size=4)(5)
    assert random.getstate() == states[0] and torch.equal(torch.get_rng_state(), states[1])


# --- the translator's words


def test_every_training_source_is_made_of_number_words():
    for number in [*range(130), *range(130, 1200, 9), *draw_numbers("train", 100)]:
        check_number_words(spell(number, "en"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("three hundred and five", ["'and'", "three hundred forty-five"]),
        ("42", ["'42'", "three hundred forty-five"]),
        ("five forty", ["'five forty'", "'forty-five'"]),
        ("twelve hundred", ["'twelve hundred'", "'one thousand two hundred'"]),
        ("zero five", ["'zero five'", "'five'"]),
        (" - -\n", ["nothing", "three hundred forty-five"]),
    ],
)
def test_words_that_do_not_spell_a_number_are_rejected_with_a_suggestion(text, words):
    with pytest.raises(ValueError, match=says(*words)):
        check_number_words(text)


# --- tokenizer


def test_every_held_out_text_survives_encoding_and_decoding(to, tokenizer):
    copy = Tokenizer(tokenizer.to_json())
    for text in itertools.chain(*draw_pairs("test", 400, to=to, seed=9)):
        ids = tokenizer.encode(text)
        assert tokenizer.unk_id not in ids
        assert tokenizer.decode(ids) == copy.decode(ids) == text
        assert tokenizer.decode(tokenizer.encode_target(text)) == text
        assert copy.encode(text) == ids


def test_the_tokenizer_does_not_learn_tokens_from_other_texts():
    few = Tokenizer.learn(["one two"] * 3, 60)
    more = Tokenizer.learn([*["one two"] * 3, *["quux"] * 5], 60)
    assert {"▁quux"} <= set(more.tokens(range(len(more))))
    assert not any("q" in token for token in few.tokens(range(4, len(few))))
    assert few.unk_id in few.encode("quux")


def test_decoding_stops_at_the_end_token_and_skips_special_tokens(small):
    _, tokenizer = small
    one, two = tokenizer.encode("one"), tokenizer.encode("two")
    eos, pad, bos = tokenizer.eos_id, tokenizer.pad_id, tokenizer.bos_id
    assert tokenizer.decode([bos, *one, eos, *two, eos, pad]) == "one"
    assert tokenizer.decode(torch.tensor([*one, *two, pad, pad])) == "one two"
    assert tokenizer.decode([eos, *one]) == ""
    assert tokenizer.decode([]) == ""


# --- batches


@given(rows=st.lists(st.lists(st.integers(0, 30), max_size=6), min_size=1, max_size=5))
def test_rows_are_padded_at_the_end(rows):
    filled = pad_rows(rows, pad_id=31)
    assert filled.dtype == torch.long
    assert filled.shape == (len(rows), max(map(len, rows)))
    for row, kept in zip(filled.tolist(), rows, strict=True):
        assert row == kept + [31] * (len(row) - len(kept))


def test_a_batch_contains_whole_pairs(small):
    pairs, tokenizer = small
    src, tgt = BatchMaker(pairs, tokenizer, batch_size=7)(3)
    assert src.size(0) == tgt.size(0) == 7
    assert tgt[:, 0].eq(tokenizer.bos_id).all()
    for row in tgt.tolist():
        after_end = row[row.index(tokenizer.eos_id) + 1 :]
        assert set(after_end) <= {tokenizer.pad_id}
    decoded = [(tokenizer.decode(s), tokenizer.decode(t)) for s, t in zip(src, tgt, strict=True)]
    assert set(decoded) <= set(pairs)  # each source has its own target
    assert (src[:, -1] != tokenizer.pad_id).any() and (tgt[:, -1] != tokenizer.pad_id).any()
