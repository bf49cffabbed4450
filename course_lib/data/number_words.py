"""Numbers in words: real language, endless, the same on every computer, and free.

The words come from CLDR's spell-out rules, through the library ``unicode-rbnf``. A number
belongs to one split for ever, by a checksum of its digits, so the three splits are disjoint
by construction. All numbers below 100 are in the training split: they are the words that the
others are made of.
"""

import random
import zlib
from functools import cache

from unicode_rbnf import RbnfEngine

LANGUAGES = {"de": "German", "fr": "French", "zh": "Chinese"}
LIMIT = 1_000_000  # numbers are drawn below it
SPLITS = ("train", "valid", "test")
ALWAYS_TRAIN = 100  # numbers below it are in no other split

_engine = cache(RbnfEngine.for_language)  # loads the rules of a language once


def spell(number: int, language: str) -> str:
    """Write a number in words.

    Args:
        number: From 0.
        language: ``"en"``, or one of ``LANGUAGES``.

    Returns:
        The words, as CLDR spells them.

    Raises:
        ValueError: If it is no whole number from 0, or the language is none of the course's.

    Example:
        >>> spell(345, "en"), spell(345, "de")
        ('three hundred forty-five', 'dreihundertfünfundvierzig')
    """
    if language not in ("en", *LANGUAGES):
        raise ValueError(f"language {language!r} is not one of en, {', '.join(LANGUAGES)}")
    if not isinstance(number, int) or not 0 <= number < 10**15:
        raise ValueError(f"{number!r} is no whole number from 0 to 10^15")
    return _engine(language).format_number(number).text


def split_of(number: int) -> str:
    """Say which split a number belongs to: of those from 100 on, 1 in 10 each to the last two.

    Example:
        >>> split_of(7), split_of(345)
        ('train', 'test')
    """
    if number < ALWAYS_TRAIN:
        return "train"
    tenth = zlib.crc32(str(number).encode()) % 10
    return {0: "valid", 3: "test"}.get(tenth, "train")


def draw_numbers(split: str, count: int, *, seed: int = 0) -> list[int]:
    """Draw numbers of a split, short ones as often as long ones.

    There are few short numbers, so in the training split they come again and again. To be
    counted fairly, numbers of the other splits are all different, while there are any left.

    Args:
        split: ``"train"``, ``"valid"`` or ``"test"``.
        count: How many, from 1.
        seed: The same seed draws the same numbers.

    Returns:
        Numbers in [0, LIMIT), in random order.

    Raises:
        ValueError: If the split is unknown or does not hold that many numbers.
    """
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is not one of {', '.join(SPLITS)}")
    if not 1 <= count <= LIMIT // 20:
        raise ValueError(f"count={count} is not in 1 … {LIMIT // 20}")
    rng = random.Random(f"{split} {seed}")
    drawn: list[int] = []
    seen: set[int] = set()
    while len(drawn) < count:
        number = rng.randrange(10 ** rng.randint(1, len(str(LIMIT - 1))))
        if split_of(number) == split and (split == "train" or number not in seen):
            drawn.append(number)
            seen.add(number)
    return drawn


def draw_pairs(split: str, count: int, *, to: str = "de", seed: int = 0) -> list[tuple[str, str]]:
    """Draw numbers of a split and write each in English and in another language.

    Args:
        split: ``"train"``, ``"valid"`` or ``"test"``.
        count: How many, from 1.
        to: One of ``LANGUAGES``.
        seed: The same seed draws the same numbers.

    Returns:
        Pairs of English words and their translation.

    Raises:
        ValueError: As ``draw_numbers`` and ``spell``.

    Example:
        >>> draw_pairs("valid", 1, to="zh")  # doctest: +ELLIPSIS
        [('...', '...')]
    """
    numbers = draw_numbers(split, count, seed=seed)
    spelled = {number: (spell(number, "en"), spell(number, to)) for number in set(numbers)}
    return [spelled[number] for number in numbers]


@cache
def number_words() -> tuple[str, ...]:
    """List every English word that a number below LIMIT is made of."""
    numbers = [*range(20), *range(20, 100, 10), 100, 1000]
    words = (spell(number, "en").split() for number in numbers)
    return tuple(dict.fromkeys(word for words_of in words for word in words_of))


def read_number(text: str) -> int:
    """Turn English number words back into a number, as far as they make sense.

    Example:
        >>> read_number("three hundred forty-five")
        345
    """
    values = {spell(number, "en"): number for number in [*range(20), *range(20, 100, 10)]}
    total = below_thousand = 0
    for word in text.replace("-", " ").split():
        if word == "thousand":
            total = 1000 * max(1, below_thousand)
            below_thousand = 0
        elif word == "hundred":
            below_thousand = 100 * max(1, below_thousand)
        else:
            below_thousand += values[word]
    return total + below_thousand


def check_number_words(text: str) -> None:
    """Refuse a text that is not an English number below one million, as CLDR spells it.

    Args:
        text: What somebody wants translated, in small letters.

    Raises:
        ValueError: If it is empty, holds another word, or its words make no number; the message
            says which.
    """
    words = text.replace("-", " ").split()
    example = "write for example: three hundred forty-five"
    if not words:
        raise ValueError(f"there is nothing to translate; {example}")
    unknown = [word for word in words if word not in number_words()]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no English number word below one million; {example}")
    number = read_number(text)
    if number >= LIMIT:  # as "nine hundred hundred hundred" is
        raise ValueError(f"{text!r} is no English number below one million; {example}")
    meant = spell(number, "en")
    if meant != text:
        raise ValueError(f"{text!r} is not how a number is spelled; did you mean {meant!r}?")
