"""Numbers in words, in English and three other languages.

The words come from CLDR's spell-out rules, applied by the ``unicode-rbnf`` library. A checksum of a
number's digits decides which split it belongs to, so the three splits are disjoint. All numbers
below 100 are in the training split, because larger numbers are built from the same words.
"""

import random
import re
import zlib
from functools import cache, lru_cache

from unicode_rbnf import RbnfEngine

from course_lib.support.corpora import LANGUAGES

LIMIT = 1_000_000  # all numbers that are drawn are below it
SPLITS = ("train", "valid", "test")
ALWAYS_TRAIN = 100  # smaller numbers are in the training split

RULES = ["spellout-numbering"]  # CLDR also has rules for genders and other forms
_engine = cache(RbnfEngine.for_language)  # loads the rules of a language once


def spell(number: int, language: str) -> str:
    """Write a number in words.

    Args:
        number: An integer from 0 to 10^15 - 1.
        language: ``"en"``, or one of ``LANGUAGES``.

    Returns:
        The words, as CLDR spells them.

    Raises:
        ValueError: If the number is not in this range, or the language is unknown.

    Example:
        >>> spell(345, "en"), spell(345, "de")
        ('three hundred forty-five', 'dreihundertfünfundvierzig')
    """
    if language not in ("en", *LANGUAGES):
        raise ValueError(f"language {language!r} is not one of en, {', '.join(LANGUAGES)}")
    if not 0 <= number < 10**15:
        raise ValueError(f"the number must be an integer from 0 to 10^15 - 1, got {number!r}")
    return _words(number, language)


@lru_cache(maxsize=2**16)  # a chapter and the task that it trains draw the same numbers
def _words(number: int, language: str) -> str:
    """Apply CLDR's rules; this takes most of the time when we draw pairs."""
    return _engine(language).format_number(number, ruleset_names=RULES).text


def split_of(number: int) -> str:
    """Return a number's split. From 100 on, "valid" and "test" each get one number in ten.

    Example:
        >>> split_of(7), split_of(345)
        ('train', 'test')
    """
    if number < ALWAYS_TRAIN:
        return "train"
    tenth = zlib.crc32(str(number).encode()) % 10
    return {0: "valid", 3: "test"}.get(tenth, "train")


def draw_numbers(split: str, count: int, *, seed: int = 0) -> list[int]:
    """Draw numbers from a split: for each, draw d uniformly from 1 to 6, then a number below 10^d.

    There are only a few short numbers, so the training split repeats them. In the other splits, all
    numbers are different, so that a score counts each number once.

    Args:
        split: ``"train"``, ``"valid"`` or ``"test"``.
        count: How many numbers to draw, from 1 to LIMIT // 20.
        seed: The same seed gives the same numbers.

    Returns:
        Numbers in [0, LIMIT), in random order.

    Raises:
        ValueError: If the split is unknown or the count is out of range.
    """
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is not one of {', '.join(SPLITS)}")
    if not 1 <= count <= LIMIT // 20:
        raise ValueError(f"count must be an integer from 1 to {LIMIT // 20}, got {count}")
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
    """Draw numbers from a split, and write each in English and in another language.

    Args:
        split: ``"train"``, ``"valid"`` or ``"test"``.
        count: How many pairs to draw, from 1 to LIMIT // 20.
        to: One of ``LANGUAGES``.
        seed: The same seed gives the same numbers.

    Returns:
        Pairs of English number words and their translation.

    Raises:
        ValueError: For the same reasons as in ``draw_numbers`` and ``spell``.

    Example:
        >>> draw_pairs("valid", 1, to="zh")  # doctest: +ELLIPSIS
        [('...', '...')]
    """
    numbers = draw_numbers(split, count, seed=seed)
    spelled = {number: (spell(number, "en"), spell(number, to)) for number in set(numbers)}
    return [spelled[number] for number in numbers]


@cache
def number_words() -> tuple[str, ...]:
    """List the English words that occur in numbers below LIMIT."""
    numbers = [*range(20), *range(20, 100, 10), 100, 1000]
    words = (spell(number, "en").split() for number in numbers)
    return tuple(dict.fromkeys(word for words_of in words for word in words_of))


def read_number(text: str) -> int:
    """Turn English number words into a number, without checking their order.

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


def spell_digits(text: str) -> str:
    """Spell out a number below one million that is written in digits, such as 1,234.

    Text without digits is returned unchanged. Raises ValueError for any other text with digits.

    Example:
        >>> spell_digits("1,234"), spell_digits("nine")
        ('one thousand two hundred thirty-four', 'nine')
    """
    digits = text.replace(",", "")
    if not re.search("[0-9]", text):
        return text
    if not re.fullmatch("[0-9]+|[0-9]{1,3}(,[0-9]{3})+", text) or len(digits.lstrip("0")) > 6:
        raise ValueError(f"{text!r} is not a whole number from 0 to {LIMIT - 1:,}, such as 1,234")
    return spell(int(digits), "en")


def check_number_words(text: str) -> None:
    """Check that a text spells a number below one million in English, in CLDR's spelling.

    Args:
        text: The text to translate, in lower case.

    Raises:
        ValueError: If the text is empty, contains a word that no such number has, or does not
            spell a number as CLDR does. The message says what is wrong.
    """
    words = text.replace("-", " ").split()
    example = "for example, write: three hundred forty-five"
    if not words:
        raise ValueError(f"there is nothing to translate; {example}")
    unknown = [word for word in words if word not in number_words()]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a word in any number below one million; {example}")
    number = read_number(text)
    if number >= LIMIT:  # for example "nine hundred hundred hundred"
        raise ValueError(f"{text!r} is not an English number below one million; {example}")
    spelled = spell(number, "en")
    if spelled != text:
        raise ValueError(f"{text!r} is not spelled correctly; did you mean {spelled!r}?")
