"""Word alignments map every token to the digits that it expresses, in every language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.data import LANGUAGES, LIMIT, spell
from course_lib.data.alignments import part_spans, reference_links, text_digits, token_digits

ALL = ("en", *LANGUAGES)
numbers = st.one_of(st.integers(0, 2000), st.integers(0, LIMIT - 1))
every_language = pytest.mark.parametrize("language", ALL)


def words(number: int, language: str) -> dict[str, list[int]]:
    """Return the digits that each word expresses; repeated words are numbered."""
    text, digits, found = spell(number, language), text_digits(number, language), {}
    for start, end, _ in part_spans(number, language):
        assert len(set(digits[start:end])) == 1, "all letters of a word express the same digits"
        word, count = text[start:end], 2
        while word in found:
            word, count = f"{text[start:end]} {count}", count + 1
        found[word] = sorted(digits[start])
    return found


WORDS = {  # computed by hand; digits count from the right
    (0, "de"): {"null": [0]},
    (12, "en"): {"twelve": [0, 1]},
    (71, "fr"): {"soixante": [1], "onze": [0, 1]},
    (91, "fr"): {"quatre": [1], "vingt": [1], "onze": [0, 1]},
    (1001, "en"): {"one": [3], "thousand": [3], "one 2": [0]},
    (1001, "zh"): {"一": [3], "千": [3], "〇": [], "一 2": [0]},
    (21_000, "fr"): {"vingt": [4], "un": [3], "mille": [3, 4]},
    (400_021, "de"): {"vier": [5], "hundert": [5], "tausend": [5], "ein": [0], "zwanzig": [1]},
    (80_080, "fr"): {"quatre": [4], "vingt": [4], "mille": [4], "quatre-vingts": [1]},
    (999_999, "en"): {
        **{"nine": [5], "hundred": [5], "ninety": [4], "nine 2": [3], "thousand": [3, 4, 5]},
        **{"nine 3": [2], "hundred 2": [2], "ninety 2": [1], "nine 4": [0]},
    },
}


@pytest.mark.parametrize(("number", "language"), WORDS)
def test_examples_are_aligned_as_computed_by_hand(number, language):
    assert words(number, language) == WORDS[number, language]


@every_language
@given(number=numbers)
def test_the_words_of_a_number_express_exactly_its_digits(language, number):
    said = frozenset().union(*text_digits(number, language))
    digits = {place for place, digit in enumerate(reversed(str(number))) if digit != "0"}
    assert said == (digits or {0})


def test_a_token_across_two_words_has_the_digits_of_both():
    assert token_digits(["▁for", "ty-fi", "ve"], 45, "en") == [{1}, {0, 1}, {0}]
    tokens = ["▁ein", "undzwanzigtausend", "drei", "hundert", "fünf", "undvierzig", "[eos]"]
    wanted = [{3}, {3, 4}, {2}, {2}, {0}, {1}, set()]
    assert token_digits(tokens, 21_345, "de") == wanted


def test_links_start_with_the_target_and_cross_if_the_languages_order_digits_differently():
    source, target = (
        ["▁three", "▁hundred", "▁forty-", "five"],
        ["▁dreihundert", "fünf", "undvierzig"],
    )
    assert reference_links(source, target, 345) == {(0, 0), (0, 1), (1, 3), (2, 2)}
    assert reference_links(["▁twelve"], ["▁zw", "ölf"], 12) == {(0, 0), (1, 0)}
    chinese = ["▁三", "十", "万"]
    assert reference_links(["▁three", "▁hundred", "▁thousand"], chinese, 300_000, "zh") == {
        (t, s) for t in range(3) for s in range(3)
    }
