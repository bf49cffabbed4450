"""Published models that write text: the model, its tokenizer and, to chat, its template."""

from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from course_lib.gpt import GPT
from course_lib.interop import gpt2, llama
from course_lib.interop.chat_template import ChatTemplate, read_chat_template, read_end_ids
from course_lib.interop.config_fields import read_json, reading
from course_lib.modern_decoder import ModernDecoder

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


class ChatModel(NamedTuple):
    """A model that was trained to chat, its tokenizer and its template."""

    model: GPT | ModernDecoder
    tokenizer: Tokenizer
    template: ChatTemplate
    ends: frozenset[int] = frozenset()  # the ids that end an answer, besides special tokens


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


def load_writer(path: Path | str) -> tuple[GPT | ModernDecoder, Tokenizer]:
    """Load a model in GPT-2's or Llama's layout, and its tokenizer.

    Raises ValueError if the folder or file contains a different kind of model, or no tokenizer.
    """
    with reading(path):
        return _load(path, model_type(path))


def load_chat_model(path: Path | str) -> ChatModel:
    """Load a model that ``load_writer`` can read, and its chat template.

    Raises ValueError if there is no such model, no tokenizer, or no chat template.
    """
    with reading(path):
        kind = model_type(path)  # rejects an encoder-only model, which has no chat template either
        template, ends = read_chat_template(path), read_end_ids(path)
        return ChatModel(*_load(path, kind), template, frozenset(ends))


def _load(path: Path | str, kind: str | None) -> tuple[GPT | ModernDecoder, Tokenizer]:
    """Load a model of this type and its tokenizer; raise ValueError if there is no tokenizer."""
    loader = gpt2 if kind == "gpt2" else llama
    model, tokenizer = loader.from_pretrained(path)
    if tokenizer is None:
        raise ValueError(
            f"{path} has no tokenizer.json to read the text with; the transformers library "
            f"can write one: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    return model, tokenizer


def special_ids(tokenizer: Tokenizer) -> set[int]:
    """Return the ids of all special tokens; generated text ends at any of them."""
    added = tokenizer.get_added_tokens_decoder()
    return {number for number, token in added.items() if token.special}
