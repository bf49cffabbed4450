"""Published models that write text: the model, its tokenizer and, to chat, its template."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from course_lib.gpt import GPT
from course_lib.interop import gpt2, llama
from course_lib.interop.chat_template import ChatTemplate, read_chat_template
from course_lib.interop.pretrained import read_json
from course_lib.modern_decoder import ModernDecoder
from course_lib.support.input_checks import first_line

UNREADABLE = (LookupError, AttributeError, TypeError, ArithmeticError, NotImplementedError)
ENCODERS = (  # the model types, in config.json, of encoder-only models
    "albert",
    "bert",
    "camembert",
    "deberta-v2",
    "distilbert",
    "electra",
    "modernbert",
    "mpnet",
    "roberta",
    "xlm-roberta",
)


class Writer(NamedTuple):
    """A model that writes text, its tokenizer and its template, which may be empty."""

    model: GPT | ModernDecoder
    tokenizer: Tokenizer
    template: ChatTemplate


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn what reading a damaged or unusual file raises into a sentence.

    Raises ValueError, with the path, the kind of error and its first line.
    """
    try:
        yield
    except (*UNREADABLE, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read as a published model ({type(error).__name__}: "
            f"{first_line(error)}); download it again, or choose another model"
        ) from None


def model_type(path: Path | str) -> str | None:
    """Return the model type in a folder's ``config.json``, or None if there is no such file.

    Raises ValueError if models of this type do not generate text.
    """
    config = Path(path) / "config.json"
    kind = read_json(config).get("model_type") if config.is_file() else None
    if kind in ENCODERS:
        raise ValueError(
            f"{path} contains an encoder-only model (model_type={kind!r}), which turns text into "
            "vectors but does not generate text; choose a decoder-only model, such as GPT-2 or "
            "Llama"
        )
    return kind


def load_writer(path: Path | str, chats: bool = False) -> Writer:
    """Load a model in GPT-2's or Llama's layout, its tokenizer and its chat template.

    Raises ValueError if the folder or file contains a different kind of model, no tokenizer, or,
    for a model that ``chats``, no chat template.
    """
    with reading(path):
        loader = gpt2 if model_type(path) == "gpt2" else llama
        template = read_chat_template(path, required=chats)
        model, tokenizer = loader.from_pretrained(path)
        if tokenizer is None:
            raise ValueError(
                f"{path} has no tokenizer.json to read the text with; the transformers library "
                f"can write one: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
            )
        return Writer(model, tokenizer, template)


def special_ids(tokenizer: Tokenizer) -> set[int]:
    """Return the ids of all special tokens; generated text ends at any of them."""
    added = tokenizer.get_added_tokens_decoder()
    return {number for number, token in added.items() if token.special}
