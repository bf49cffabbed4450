"""Alignments of number words in two languages, computed from how the words are built.

Every word contributes to a part of the number: in *three hundred forty-five*, the words *three* and
*hundred* form the part 300, which is the digit 3 at place 2. Two tokens are aligned if they
contribute to the same digit. Places are counted from the right, starting at 0.
"""

import re
from collections.abc import Sequence
from functools import cache

from course_lib.data.number_words import LIMIT, spell

SCALES = {  # words that multiply the words before them
    "en": {"hundred": 100, "thousand": 1000},
    "de": {"hundert": 100, "tausend": 1000},
    "fr": {"vingt": 20, "vingts": 20, "cent": 100, "cents": 100, "mille": 1000},
    "zh": {"十": 10, "百": 100, "千": 1000, "万": 10_000},
}
INSIDE_ONLY = {"de": {"ein": 1}, "fr": {"une": 1}}  # words that occur only inside other words
WORD_START = "▁"


def part_spans(number: int, language: str) -> list[tuple[int, int, list[int]]]:
    """Find the words of a number, and the parts of the number that each word contributes to.

    Args:
        number: An integer from 0 to LIMIT - 1.
        language: ``"en"``, or one of ``LANGUAGES``.

    Returns:
        For each word, its start and end in ``spell(number, language)``, and its parts.

    Raises:
        ValueError: If the number is not below ``LIMIT``, or ``spell`` rejects it.

    Example:
        >>> part_spans(300, "en")
        [(0, 5, [300]), (6, 13, [300])]
    """
    text = spell(number, language)
    if number >= LIMIT:
        raise ValueError(f"alignments exist only for numbers below {LIMIT:,}, got {number:,}")
    spans: list[tuple[int, int, list[int]]] = []
    for match in _pattern(language).finditer(text):
        scale = SCALES[language].get(match[0])
        parts = [_values(language)[match[0]]] if scale is None else _multiply(spans, scale)
        spans.append((*match.span(), parts))
    return spans


def _multiply(spans: list[tuple[int, int, list[int]]], scale: int) -> list[int]:
    """Multiply smaller parts that come just before a scale word, and return the word's parts."""
    multiplied = []
    for _, _, parts in reversed(spans):
        if max(parts) >= scale:
            break
        parts[:] = [part * scale for part in parts]
        multiplied += [part for part in parts if part]
    return list(dict.fromkeys(multiplied)) or [scale]


@cache
def _values(language: str) -> dict[str, int]:
    """Map the number words, except multipliers such as “thousand”, to their values."""
    numbers = range(10) if language == "zh" else [*range(20), *range(20, 100, 10)]
    values = {spell(number, language): number for number in numbers} | INSIDE_ONLY.get(language, {})
    return {word: value for word, value in values.items() if word not in SCALES[language]}


@cache
def _pattern(language: str) -> re.Pattern[str]:
    """Return a pattern that matches one number word, and always the longest possible one."""
    words = sorted({*_values(language), *SCALES[language]}, key=len, reverse=True)
    return re.compile("|".join(words))


def text_digits(number: int, language: str) -> list[frozenset[int]]:
    """Find the digits that each character of a number's words contributes to.

    Args:
        number: An integer from 0 to LIMIT - 1.
        language: ``"en"``, or one of ``LANGUAGES``.

    Returns:
        For every character of ``spell(number, language)``, the set of those digits' places. It is
        empty for spaces, hyphens, *und* and *et*.

    Example:
        >>> [sorted(places) for places in text_digits(7, "zh")], len(text_digits(7, "en"))
        ([[0]], 5)
    """
    digits: list[frozenset[int]] = [frozenset()] * len(spell(number, language))
    for start, end, parts in part_spans(number, language):
        places = frozenset(place for part in parts for place in _places(part, number))
        digits[start:end] = [places] * (end - start)
    return digits


def _places(part: int, number: int) -> list[int]:
    """List the places of a part's nonzero digits; the number 0 has its only digit at place 0."""
    if number == 0:
        return [0]
    return [place for place, digit in enumerate(reversed(str(part))) if digit != "0"]


def token_digits(tokens: Sequence[str], number: int, language: str) -> list[frozenset[int]]:
    """Find the digits that each token contributes to.

    Args:
        tokens: Tokens from ``Tokenizer.tokens``, with or without special tokens at the ends.
        number: The number that the tokens spell.
        language: ``"en"``, or one of ``LANGUAGES``.

    Returns:
        For every token, the places of all digits that any of its characters contribute to.

    Raises:
        ValueError: If the tokens do not spell the number.

    Example:
        >>> [sorted(places) for places in token_digits(["▁forty", "-", "five"], 45, "en")]
        [[1], [], [0]]
    """
    letters = [frozenset(), *text_digits(number, language)]  # the text starts with ▁
    texts = ["" if token[:1] == "[" else token for token in tokens]  # "[eos]" is not text
    if "".join(texts).replace(WORD_START, " ") != " " + spell(number, language):
        raise ValueError(f"{'|'.join(tokens)} does not spell {number:,} in {language!r}")
    digits = []
    start = 0
    for text in texts:
        digits.append(frozenset().union(*letters[start : start + len(text)]))
        start += len(text)
    return digits


def reference_links(
    source: Sequence[str], target: Sequence[str], number: int, to: str = "de"
) -> set[tuple[int, int]]:
    """Link every target token to the source tokens that contribute to the same digit.

    Args:
        source: Tokens of the English words.
        target: Tokens of the translation.
        number: The number that both sequences spell.
        to: The language of the translation, one of ``LANGUAGES``.

    Returns:
        Pairs of positions, (target, source), as in an attention map ``(T, S)``.

    Raises:
        ValueError: If the tokens do not spell the number.

    Example:
        >>> sorted(reference_links(["▁forty", "-", "five"], ["▁fünf", "und", "vierzig"], 45))
        [(0, 2), (2, 0)]
    """
    source_digits = token_digits(source, number, "en")
    target_digits = token_digits(target, number, to)
    return {
        (t, s)
        for t, wanted in enumerate(target_digits)
        for s, offered in enumerate(source_digits)
        if wanted & offered
    }
