"""Which piece of a number's words says which digit: alignments that are known, not guessed.

Every word stands for a part of the number: in *three hundred forty-five* the words *three* and
*hundred* make the part 300, the digit in place 2. Two pieces of text are aligned when they share
a digit. Places count from the right, from 0.
"""

import re
from collections.abc import Sequence
from functools import cache

from course_lib.data.number_words import LIMIT, spell

SCALES = {  # what multiplies the words before it
    "en": {"hundred": 100, "thousand": 1000},
    "de": {"hundert": 100, "tausend": 1000},
    "fr": {"vingt": 20, "vingts": 20, "cent": 100, "cents": 100, "mille": 1000},
    "zh": {"十": 10, "百": 100, "千": 1000, "万": 10_000},
}
ALONE = {"de": {"ein": 1}, "fr": {"une": 1}}  # words that no number under LIMIT is by itself
WORD_START = "▁"


def part_spans(number: int, language: str) -> list[tuple[int, int, list[int]]]:
    """Cut a number's words into those that mean something, and find the parts each belongs to.

    Args:
        number: From 0, below ``LIMIT``.
        language: ``"en"``, or one of ``LANGUAGES``.

    Returns:
        For each word where it begins and ends in ``spell(number, language)``, and the parts of
        the number that it helps to say.

    Raises:
        ValueError: If the number is none below ``LIMIT``, or as ``spell``.

    Example:
        >>> part_spans(300, "en")
        [(0, 5, [300]), (6, 13, [300])]
    """
    text = spell(number, language)
    if number >= LIMIT:
        raise ValueError(f"alignments are known below {LIMIT:,}, not for {number:,}")
    found: list[tuple[int, int, list[int]]] = []
    for match in _pattern(language).finditer(text):
        scale = SCALES[language].get(match[0])
        parts = [_values(language)[match[0]]] if scale is None else _multiply(found, scale)
        found.append((*match.span(), parts))
    return found


def _multiply(found: list[tuple[int, int, list[int]]], scale: int) -> list[int]:
    """Let a scale word multiply all smaller parts right before it; return what it helps to say."""
    said = []
    for _, _, parts in reversed(found):
        if max(parts) >= scale:
            break
        parts[:] = [part * scale for part in parts]
        said += [part for part in parts if part]
    return list(dict.fromkeys(said)) or [scale]


@cache
def _values(language: str) -> dict[str, int]:
    """List the words that do not multiply, with their values."""
    known = range(10) if language == "zh" else [*range(20), *range(20, 100, 10)]
    words = {spell(value, language): value for value in known} | ALONE.get(language, {})
    return {word: value for word, value in words.items() if word not in SCALES[language]}


@cache
def _pattern(language: str) -> re.Pattern[str]:
    """Match a word of a number, the longest that fits."""
    words = sorted({*_values(language), *SCALES[language]}, key=len, reverse=True)
    return re.compile("|".join(words))


def text_digits(number: int, language: str) -> list[frozenset[int]]:
    """Say for every letter of a number's words which digits it helps to say.

    Args:
        number: From 0, below ``LIMIT``.
        language: ``"en"``, or one of ``LANGUAGES``.

    Returns:
        A set for every letter of ``spell(number, language)``: the places of the digits. It is
        empty for what says no digit: spaces, hyphens, *und*, *et*.

    Example:
        >>> [sorted(places) for places in text_digits(7, "zh")], len(text_digits(7, "en"))
        ([[0]], 5)
    """
    letters: list[frozenset[int]] = [frozenset()] * len(spell(number, language))
    for start, end, parts in part_spans(number, language):
        places = frozenset(place for part in parts for place in _places(part, number))
        letters[start:end] = [places] * (end - start)
    return letters


def _places(part: int, number: int) -> list[int]:
    """List the places of the digits that are not 0; the number 0 has one digit all the same."""
    if number == 0:
        return [0]
    return [place for place, digit in enumerate(reversed(str(part))) if digit != "0"]


def piece_digits(pieces: Sequence[str], number: int, language: str) -> list[frozenset[int]]:
    """Say for every piece of a tokenizer which digits it helps to say.

    Args:
        pieces: What ``Tokenizer.pieces`` names, special pieces at either end included; however
            the words are cut.
        number: The number that they spell.
        language: ``"en"``, or one of ``LANGUAGES``.

    Returns:
        A set of places for every piece: all digits that one of its letters helps to say.

    Raises:
        ValueError: If the pieces do not spell the number.

    Example:
        >>> [sorted(places) for places in piece_digits(["▁forty", "-", "five"], 45, "en")]
        [[1], [], [0]]
    """
    letters = [frozenset(), *text_digits(number, language)]  # the first: the ▁ at the beginning
    words = ["" if piece[:1] == "[" else piece for piece in pieces]  # no text holds [eos]
    if "".join(words).replace(WORD_START, " ") != " " + spell(number, language):
        raise ValueError(f"{'|'.join(pieces)} does not spell {number:,} in {language!r}")
    digits = []
    start = 0
    for word in words:
        digits.append(frozenset().union(*letters[start : start + len(word)]))
        start += len(word)
    return digits


def known_links(
    source: Sequence[str], target: Sequence[str], number: int, to: str = "de"
) -> set[tuple[int, int]]:
    """Link every target piece to the source pieces that share a digit with it.

    Args:
        source: Pieces of the English words.
        target: Pieces of the translation.
        number: What both spell.
        to: The language of the translation, one of ``LANGUAGES``.

    Returns:
        Pairs of places (target, source), as in an attention map ``(T, S)``.

    Raises:
        ValueError: If the pieces do not spell the number.

    Example:
        >>> sorted(known_links(["▁forty", "-", "five"], ["▁fünf", "und", "vierzig"], 45))
        [(0, 2), (2, 0)]
    """
    says = piece_digits(source, number, "en")
    asks = piece_digits(target, number, to)
    return {(t, s) for t, wanted in enumerate(asks) for s, said in enumerate(says) if wanted & said}
