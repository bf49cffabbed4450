"""Generate text and hold conversations with a published language model, token by token."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from torch import Tensor

from course_lib.decoding import sample_tokens
from course_lib.gpt import GPT, text_engine
from course_lib.interop import gpt2, llama
from course_lib.interop.chat_template import ChatTemplate, read_chat_template
from course_lib.interop.config_fields import read_json
from course_lib.kv_cache import Engine
from course_lib.modern_decoder import ModernDecoder

MOST_TOKENS = 8_192  # that a conversation may have; the keys and values of more need gigabytes
Message = Mapping[str, str]  # with the keys "role" and "content"
Draw = Callable[[Tensor], Tensor]  # logits (1, V) → the next token (1,)


def load_writer(path: Path | str) -> tuple[GPT | ModernDecoder, Tokenizer]:
    """Load a model in the layout of GPT-2 or Llama, and its tokenizer.

    Raises ValueError if the folder or the file holds another model or no tokenizer.
    """
    config = Path(path) / "config.json"
    is_gpt2 = config.is_file() and read_json(config).get("model_type") == "gpt2"
    model, tokenizer = (gpt2 if is_gpt2 else llama).from_pretrained(path)
    if tokenizer is None:
        raise ValueError(
            f"{path} has no tokenizer.json to read the text with; the `transformers` "
            f"library writes it: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    return model, tokenizer


def sampler(seed: int = 0, **options: Any) -> Draw:
    """Return a function that draws the next token, with options of ``sample_tokens``.

    Raises ValueError if an option is out of range.
    """
    sample_tokens(torch.zeros(1, 1), **options)  # checks the options before a model is loaded
    generator = torch.Generator().manual_seed(seed)
    return lambda logits: sample_tokens(logits, generator=generator, **options)


def write(
    engine: Engine, ids: Sequence[int], tokenizer: Tokenizer, draw: Draw, tokens: int
) -> Iterator[int]:
    """Read ids with an engine, and yield the ids that follow, at most a number of them.

    Every special token ends the text, because none of them is part of a text.
    """
    added = tokenizer.get_added_tokens_decoder()
    ends = {number for number, token in added.items() if token.special}
    room = engine.caches[0].max_len
    for _ in range(min(tokens, room - engine.length - len(ids) + 1)):
        token = int(draw(engine.step(torch.tensor([ids]))))
        if token in ends:
            return
        yield token
        ids = [token]


def decode(tokenizer: Tokenizer, tokens: Iterable[int]) -> Iterator[str]:
    """Yield the text of tokens as soon as its characters are complete, without special tokens."""
    stream = DecodeStream(skip_special_tokens=True)
    for token in tokens:
        if text := stream.step(tokenizer, token):
            yield text


def continue_text(path: Path | str, prompt: str, tokens: int, draw: Draw) -> Iterator[str]:
    """Yield a prompt, and piece by piece the text with which a published model continues it.

    Raises ValueError as ``load_writer`` does, or if the prompt has no token or too many.
    """
    model, tokenizer = load_writer(path)
    ids = tokenizer.encode(prompt).ids
    if not ids:
        raise ValueError("the prompt is empty; pass the beginning of the text with --prompt TEXT")
    limit = model.config.max_len
    if len(ids) > limit:
        raise ValueError(
            f"the prompt has {len(ids):,} tokens, and this model reads at most {limit:,}"
        )
    engine = text_engine(model, min(limit, len(ids) + tokens))
    new = write(engine, ids, tokenizer, draw, tokens)
    yield from decode(tokenizer, (token for part in (ids, new) for token in part))


class Conversation:
    """Talk with a published model that was trained to answer; it reads every token only once.

    Args:
        path: A folder or a GGUF file, as for ``load_writer``, with a chat template.
        draw: What ``sampler`` returns.
        tokens: The largest number of tokens of an answer.

    Raises:
        ValueError: If there is no such model, no tokenizer, or no chat template.
    """

    def __init__(self, path: Path | str, draw: Draw, tokens: int = 500) -> None:
        self.template = read_chat_template(path)
        self.model, self.tokenizer = load_writer(path)
        self.draw = draw
        self.tokens = tokens
        self.messages: list[Message] = []
        self.room = min(self.model.config.max_len, MOST_TOKENS)
        self.engine = text_engine(self.model, self.room)
        self.ids: list[int] = []  # of the conversation; the engine has read the first of them

    def answer(self, question: str) -> Iterator[str]:
        """Yield the answer to a question piece by piece; what was said before counts.

        If the caller stops early, the answer so far is part of the conversation.
        Raises ValueError if the conversation gets too long for the model.
        """
        messages = [*self.messages, {"role": "user", "content": question}]
        text = render(self.template, messages)
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        read = min(cache.length for cache in self.engine.caches)  # all of them, after a Ctrl-C
        known = len(os.path.commonprefix([self.ids[:read], ids[:-1]]))  # it takes lists, too
        self.engine.truncate(known)
        self.ids = ids
        answer = ""
        try:
            self._check_room()
            for part in decode(self.tokenizer, self._new_tokens(known)):
                answer += part
                yield part
            self._check_room()
        finally:
            self.messages = [*messages, {"role": "assistant", "content": answer}]

    def _new_tokens(self, known: int) -> Iterator[int]:
        """Yield the tokens of an answer, and add them to the ids of the conversation."""
        for token in write(self.engine, self.ids[known:], self.tokenizer, self.draw, self.tokens):
            self.ids.append(token)
            yield token

    def _check_room(self) -> None:
        """Raise ValueError if the model cannot read the whole conversation and a new token."""
        if len(self.ids) >= self.room:
            raise ValueError(
                f"the conversation has {len(self.ids):,} tokens, and this model reads at most "
                f"{self.room:,}"
            )


def render(template: ChatTemplate, messages: Sequence[Message]) -> str:
    """Write messages as the template says, up to where the answer begins.

    Raises ValueError if the template rejects them, or is not a template in the language of Jinja.
    """

    def reject(reason: str) -> None:
        """Raise the error that a template asks for."""
        raise TemplateError(reason)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = reject
    try:
        return environment.from_string(template.source).render(
            messages=messages,
            add_generation_prompt=True,
            bos_token=template.bos_token,
            eos_token=template.eos_token,
        )
    except TemplateError as error:
        raise ValueError(f"the chat template cannot be used: {error}") from None
