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
    """Load a model in GPT-2's or Llama's layout, and its tokenizer.

    Raises ValueError if the folder or file contains a different kind of model, or no tokenizer.
    """
    config = Path(path) / "config.json"
    is_gpt2 = config.is_file() and read_json(config).get("model_type") == "gpt2"
    model, tokenizer = (gpt2 if is_gpt2 else llama).from_pretrained(path)
    if tokenizer is None:
        raise ValueError(
            f"{path} has no tokenizer.json to read the text with; the transformers library "
            f"can write one: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    return model, tokenizer


def sampler(seed: int = 0, **options: Any) -> Draw:
    """Return a function that draws the next token, given options for ``sample_tokens``.

    Raises ValueError if an option is out of range.
    """
    sample_tokens(torch.zeros(1, 1), **options)  # checks the options before a model is loaded
    generator = torch.Generator().manual_seed(seed)
    return lambda logits: sample_tokens(logits, generator=generator, **options)


def write(
    engine: Engine, ids: Sequence[int], tokenizer: Tokenizer, draw: Draw, tokens: int
) -> Iterator[int]:
    """Feed ids to an engine, and yield the ids of at most ``tokens`` new tokens.

    Any special token ends the text, because no special token belongs in it.
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
    """Yield the text of tokens, except special ones, as soon as its characters are complete."""
    stream = DecodeStream(skip_special_tokens=True)
    for token in tokens:
        if text := stream.step(tokenizer, token):
            yield text


def continue_text(path: Path | str, prompt: str, tokens: int, draw: Draw) -> Iterator[str]:
    """Yield a prompt, and then, piece by piece, a published model's continuation.

    Raises ValueError in the same cases as ``load_writer``, or if the prompt is empty or too long.
    """
    model, tokenizer = load_writer(path)
    ids = tokenizer.encode(prompt).ids
    if not ids:
        raise ValueError("the prompt is empty; pass the beginning of the text with --prompt TEXT")
    limit = model.config.max_len
    if len(ids) > limit:
        raise ValueError(
            f"the prompt has {len(ids):,} tokens, but this model reads at most {limit:,}"
        )
    engine = text_engine(model, min(limit, len(ids) + tokens))
    new = write(engine, ids, tokenizer, draw, tokens)
    yield from decode(tokenizer, (token for part in (ids, new) for token in part))


class Conversation:
    """Chat with a published model that was trained to chat; the model reads each token only once.

    Args:
        path: A folder or a GGUF file that ``load_writer`` can read, with a chat template.
        draw: The function that ``sampler`` returned.
        tokens: The maximum number of tokens in an answer.

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
        """Yield the answer to a question piece by piece, given the conversation up to now.

        If the caller stops early, the conversation keeps the part that was yielded.
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
        """Yield the tokens of an answer, and add them to the conversation's ids."""
        for token in write(self.engine, self.ids[known:], self.tokenizer, self.draw, self.tokens):
            self.ids.append(token)
            yield token

    def _check_room(self) -> None:
        """Raise ValueError if the model cannot read the whole conversation and one more token."""
        if len(self.ids) >= self.room:
            raise ValueError(
                f"the conversation has {len(self.ids):,} tokens, but this model reads at most "
                f"{self.room:,}"
            )


def render(template: ChatTemplate, messages: Sequence[Message]) -> str:
    """Format messages with the template, up to the place where the answer begins.

    Raises ValueError if the template rejects them, or is not a valid Jinja template.
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
