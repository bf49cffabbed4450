"""Byte-pair encoding agrees with the library id by id, and explains bad input."""

import random

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from course_lib.data import LANGUAGES, read_library, spell
from course_lib.data.multi30k_files import CAPTIONS
from course_lib.data.number_words import split_of
from course_lib.exercises.questions.clinic_cases import catalogued
from course_lib.support.pre_tokenization import byte_words
from course_lib.tokenization import BPETokenizer, train_bpe

SPECIAL = ("[eos]", "[pad]", "[eos]!")
NUMBERS = [n for n in range(1000) if split_of(n) == "train"]
MIXED = "zwölf Züge,  7 €\n[eos]!It's [eos] 345½ x²\t\n 七百四十五 [pad]\u00a0Ⅷ\x1f नमस्ते 🤗"


def number_words(*languages):
    """Spell the training numbers below 1,000 in several languages."""
    return "\n".join(spell(n, language) for language in languages for n in NUMBERS)


def library_text(size):
    """Return the first characters of the source code of Python's library."""
    library = read_library()
    return library.characters.decode(library.train[:size])


TEXTS = {
    **{language: lambda language=language: number_words(language) for language in LANGUAGES},
    "python": lambda: library_text(5_000),
    "captions": lambda: "\n".join(caption for pair in CAPTIONS for caption in pair),
    "repeated letters": lambda: "a aa aaa aaaa aaaaa aaab baaa\n" * 3,
}


def library_tokenizer(text, num_merges, pre_tokenize=True):
    """Train the library's byte-level BPE, and add the special tokens after the merges."""
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre_tokenize)
    theirs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + num_merges, initial_alphabet=alphabet, show_progress=False
    )
    theirs.train_from_iterator([text], trainer)
    theirs.add_special_tokens(list(SPECIAL))
    return theirs


@pytest.mark.parametrize("name", TEXTS)
def test_every_id_agrees_with_the_library(name):
    text = TEXTS[name]()
    theirs = library_tokenizer(text, 300)
    ours = BPETokenizer(train_bpe(text, 300), SPECIAL)
    assert len(ours) == theirs.get_vocab_size()
    for sample in (text, MIXED, "siebentausend", ""):
        ids = ours.encode(sample)
        assert ids == theirs.encode(sample).ids
        assert ours.decode(ids) == sample
        assert ours.decode(ids[1:-1]) == theirs.decode(ids[1:-1], skip_special_tokens=False)


def test_without_pre_tokenization_merges_cross_spaces_as_in_the_library():
    text = number_words("en")[:2000]
    theirs = library_tokenizer(text, 80, pre_tokenize=False)
    ours = BPETokenizer(train_bpe(text, 80, pre_tokenize=False), SPECIAL, pre_tokenize=False)
    assert ours.encode(text) == theirs.encode(text).ids
    assert any(b" " in token[1:-1] for token in ours.tokens[256:336])


def test_words_are_split_as_in_the_library():
    draw = random.Random(0)
    alphabet = "  \n\t'sdltvre7½²Ⅷ٣aZäß七ー_-!€🤗\u00a0\u2003\x1f\u0301"
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    for _ in range(500):
        text = "".join(draw.choices(alphabet, k=12))
        ours = [b"".join(word).decode() for word in byte_words(text)]
        assert ours == [text[start:end] for _, (start, end) in cut(text)], repr(text)


def test_training_stops_when_no_pair_is_left():
    assert train_bpe("", 5) == train_bpe("a b", 0) == []
    assert train_bpe("abc abc", 9) == [(b"a", b"b"), (b"ab", b"c"), (b" ", b"abc")]


def test_a_token_from_two_different_merges_has_one_id():
    tokenizer = BPETokenizer(
        [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc"), (b"c", b"c")]
    )
    assert len(tokenizer) == 256 + 4
    assert tokenizer.encode("abccc") == [258, 259] and tokenizer.decode([258]) == "abc"


def test_the_tokens_in_the_chapters_solutions_are_correct():
    tokenizer = BPETokenizer(train_bpe(number_words("en", *LANGUAGES), 200))
    friend = catalogued("apply_merges", "by_frequency").implementation
    for word, wrong, right in (
        ("siebentausend", "sieben t a u s en d", "sieb ent a u se n d"),
        ("cent", "c en t", "cent"),
        ("seventeen", None, "sev ent een"),
        ("seventh", None, "sev ent h"),
    ):
        assert [tokenizer.tokens[n].decode() for n in tokenizer.encode(word)] == right.split()
        letters = tuple(bytes([number]) for number in word.encode())
        assert wrong is None or b" ".join(friend(letters, tokenizer.ranks)).decode() == wrong
