"""What the models learn from: corpora, a tokenizer, batches. Nothing here is downloaded."""

from course_lib.data.batches import BatchMaker, pad_rows
from course_lib.data.numbers import (
    LANGUAGES,
    LIMIT,
    check_number_words,
    draw_numbers,
    draw_pairs,
    spell,
)
from course_lib.data.tokenizer import Tokenizer

__all__ = [
    "LANGUAGES",
    "LIMIT",
    "BatchMaker",
    "Tokenizer",
    "check_number_words",
    "draw_numbers",
    "draw_pairs",
    "pad_rows",
    "spell",
]
