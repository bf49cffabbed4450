"""Corpora, a tokenizer and batches. Importing this package downloads nothing."""

from course_lib.data.collate import BatchMaker, pad_rows
from course_lib.data.number_words import (
    LANGUAGES,
    LIMIT,
    check_number_words,
    draw_numbers,
    draw_pairs,
    spell,
    spell_digits,
)
from course_lib.data.text import (
    Characters,
    Text,
    read_library,
    read_shakespeare,
    read_text,
    side_by_side,
)
from course_lib.data.tokenizer import Tokenizer

__all__ = [
    "LANGUAGES",
    "LIMIT",
    "BatchMaker",
    "Characters",
    "Text",
    "Tokenizer",
    "check_number_words",
    "draw_numbers",
    "draw_pairs",
    "pad_rows",
    "read_library",
    "read_shakespeare",
    "read_text",
    "side_by_side",
    "spell",
    "spell_digits",
]
