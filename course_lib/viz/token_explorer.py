"""An explorer for byte-pair encoding that splits text with the merges from chapter 10."""

from functools import cache
from typing import Any

from traitlets import Int, List, Unicode

from course_lib.data import LANGUAGES, spell
from course_lib.data.number_words import split_of
from course_lib.tokenization import BPETokenizer, train_bpe
from course_lib.viz.explorer_base import Explorer


@cache
def number_tokenizer() -> BPETokenizer:
    """Train the tokenizer from chapter 10, which takes about a second."""
    numbers = [n for n in range(1000) if split_of(n) == "train"]
    text = "\n".join(spell(n, language) for language in ("en", *LANGUAGES) for n in numbers)
    return BPETokenizer(train_bpe(text, 200))


class TokenExplorer(Explorer):
    """An explorer that shows step by step how merges turn typed text into tokens."""

    module = "tokens"
    title = "Tokenization"
    question = "Which letter breaks a token?"
    alt = (
        "The word siebentausend in four rows. In the first row, every letter is a token. Each of "
        "the other three rows shows the number of a merge and the tokens after it: the merges "
        "form nt, then ent, then se. The bar on the left can show three more merges."
    )
    text = Unicode("siebentausend").tag(sync=True, state=True)
    step = Int(3).tag(sync=True, state=True)
    merges = List(List(Int())).tag(sync=True, state=True)  # ids: two tokens and the merged one

    def __init__(self, **state: Any) -> None:
        ids = number_tokenizer().ids
        merges = [[ids[a], ids[b], ids[a + b]] for a, b in number_tokenizer().ranks]
        super().__init__(merges=merges, **state)
