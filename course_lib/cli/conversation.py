"""Generate text and hold conversations with a published language model, token by token."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from torch import Tensor

from course_lib.decoding import sample_tokens
from course_lib.gpt import text_engine
from course_lib.interop.chat_template import Message, render
from course_lib.interop.text_models import Writer, special_ids
from course_lib.support.engines import Engine

MOST_TOKENS = 8_192  # in a conversation; the keys and values of more tokens take gigabytes
Draw = Callable[[Tensor], Tensor]  # logits (1, V) → the next token (1,)


def sampler(seed: int = 0, **options: Any) -> Draw:
    """Return a function that samples the next token with these options of ``sample_tokens``.

    Raises ValueError if an option is out of range.
    """
    sample_tokens(torch.zeros(1, 1), **options)  # checks the options before a model is loaded
    generator = torch.Generator().manual_seed(seed)
    return lambda logits: sample_tokens(logits, generator=generator, **options)


def write(
    engine: Engine, ids: Sequence[int], ends: Collection[int], draw: Draw, tokens: int
) -> Iterator[int]:
    """Feed ids to an engine, and yield the ids of at most ``tokens`` new tokens.

    A token whose id is in ``ends`` ends the text.
    """
    room = engine.caches[0].max_len
    for _ in range(min(tokens, room - engine.length - len(ids) + 1)):
        token = int(draw(engine.step(torch.tensor([ids]))))
        if token in ends:
            return
        yield token
        ids = [token]


def decode(tokenizer: Tokenizer, tokens: Iterable[int]) -> Iterator[str]:
    """Yield the tokens' text as its characters become complete, without special tokens."""
    stream = DecodeStream(skip_special_tokens=True)
    for token in tokens:
        if text := stream.step(tokenizer, token):
            yield text


def continue_text(writer: Writer, prompt: str, tokens: int, draw: Draw) -> Iterator[str]:
    """Yield a prompt, and then, piece by piece, the model's continuation of it.

    A special token ends the text, and so does any of the template's ``end_ids``.
    Raises ValueError if the prompt is empty or too long.
    """
    model, tokenizer, template = writer
    ids = tokenizer.encode(prompt).ids
    if not ids:
        raise ValueError("the prompt is empty; pass the beginning of the text with --prompt TEXT")
    limit = model.config.max_len
    if len(ids) > limit:
        raise ValueError(
            f"the prompt has {len(ids):,} tokens, but this model reads at most {limit:,}"
        )
    engine = text_engine(model, min(limit, len(ids) + tokens))
    new = write(engine, ids, special_ids(tokenizer) | template.end_ids, draw, tokens)
    yield from decode(tokenizer, (token for part in (ids, new) for token in part))


class Conversation:
    """A chat with a published model that was trained to chat; the model reads each token only once.

    ``notes`` contains remarks about the last answer, for example that it was cut off.
    ``ends`` contains the ids that end an answer, and ``end_id`` is the id of the model's own end
    token, or None if the tokenizer does not know this token.

    Args:
        writer: The model, its tokenizer and its chat template.
        draw: The function that ``sampler`` returned.
        tokens: The maximum number of tokens in an answer.
    """

    def __init__(self, writer: Writer, draw: Draw, tokens: int = 500) -> None:
        self.model, self.tokenizer, self.template = writer
        self.draw = draw
        self.tokens = tokens
        self.end_id = self.tokenizer.token_to_id(self.template.eos_token)
        self.ends = special_ids(self.tokenizer) | self.template.end_ids
        if self.end_id is not None:
            self.ends.add(self.end_id)
        self.messages: list[Message] = []
        self.notes: list[str] = []
        self.room = min(self.model.config.max_len, MOST_TOKENS)
        self.engine = text_engine(self.model, self.room)
        self.ids: list[int] = []  # of the conversation; the engine has read the first of them

    def answer(self, question: str) -> Iterator[str]:
        """Yield the answer to a question piece by piece, given the conversation so far.

        If the caller stops early, the conversation keeps the part that was yielded. If the question
        no longer fits, a new conversation begins.
        Raises ValueError if the question alone is too long for the model.
        """
        self.notes.clear()
        messages = [*self.messages, {"role": "user", "content": question}]
        ids = self._encoded(messages)
        if len(ids) >= self.room:
            messages = messages[-1:]
            ids = self._encoded(messages)
            if len(ids) >= self.room:
                raise ValueError(
                    f"the question takes {len(ids):,} tokens and leaves no room for an answer in a "
                    f"conversation of {self.room:,}; ask a shorter question"
                )
            self.notes.append(
                "this answer begins a new conversation, because the question did not fit in the "
                f"earlier one, which can have {self.room:,} tokens"
            )
        read = min(cache.length for cache in self.engine.caches)  # all of them, after a Ctrl-C
        known = len(os.path.commonprefix([self.ids[:read], ids[:-1]]))  # it takes lists, too
        self.engine.truncate(known)
        self.ids = ids
        answer = ""
        try:
            for part in decode(self.tokenizer, self._new_tokens(known)):
                answer += part
                yield part
        finally:
            self.messages = [*messages, {"role": "assistant", "content": answer}]

    def _encoded(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a conversation, up to the point where the answer begins."""
        text = render(self.template, messages)
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _new_tokens(self, known: int) -> Iterator[int]:
        """Yield the tokens of an answer, and add them to the conversation's ids."""
        start = len(self.ids)
        for token in write(self.engine, self.ids[known:], self.ends, self.draw, self.tokens):
            self.ids.append(token)
            yield token
        if len(self.ids) > self.room:
            self.notes.append(f"cut off: a conversation can have at most {self.room:,} tokens")
        elif len(self.ids) == start + self.tokens:
            self.notes.append(f"cut off at {self.tokens:,} tokens; --tokens N allows more")
