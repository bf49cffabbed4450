"""An explorer for the attention heads of the trained translator (paper, §3.2.2)."""

import re
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from traitlets import Bool, Dict, Int, List, Unicode, observe

from course_lib.data import LIMIT, spell
from course_lib.data.number_words import read_number
from course_lib.tasks.numbers import Translator, load_or_train
from course_lib.viz.explorer_base import Explorer

MAX_NEW_TOKENS = 14  # numbers below a million need about 12
DECIMALS = 6  # of the weights that the browser gets
ATTENTIONS = {
    "encoder": "encoder.layers.{}.self_attn",
    "decoder": "decoder.layers.{}.self_attn",
    "cross": "decoder.layers.{}.cross_attn",
}
Head = Sequence[Any]  # a key of ATTENTIONS, and the indices of a layer and a head


def number_words(text: str) -> str:
    """Turn a number that is written in digits into English words.

    Raises ValueError, with an example, if the text is not a number below one million.
    """
    digits = text.strip().replace(",", "")
    if not re.fullmatch("0*[0-9]{1,6}", digits):
        raise ValueError(f"{text[:20]!r} is not a number from 0 to {LIMIT - 1:,}, such as 45,345")
    return spell(int(digits), "en")


def heads_off(attention: nn.Module, heads: Collection[int]) -> RemovableHandle:
    """Replace some heads' outputs in a ``MultiHeadAttention`` with zeros, without changing weights.

    Returns the handle of a hook, for use in a ``with`` statement.
    """

    def zero_heads(_: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        """Replace the outputs of ``heads`` with zeros."""
        joined = args[0].unflatten(-1, (attention.num_heads, -1)).clone()  # (B, T, H, d_v)
        joined[..., list(heads), :] = 0.0
        return (joined.flatten(-2),)  # (B, T, H * d_v)

    return attention.get_submodule("w_o").register_forward_pre_hook(zero_heads)


def all_off(translator: Translator, off: Sequence[Head]) -> ExitStack:
    """Switch off some heads of a translator; use the result in a ``with`` statement."""
    stack = ExitStack()
    for place, layer in {(place, layer) for place, layer, _ in off}:
        attention = translator.model.get_submodule(ATTENTIONS[place].format(layer))
        heads = [head for *where, head in off if where == [place, layer]]
        stack.enter_context(heads_off(attention, heads))
    return stack


def read_through(translator: Translator, words: str, off: Sequence[Head]) -> dict[str, Any]:
    """Translate English number words by greedy decoding, with some heads switched off.

    Returns the source tokens, at most ``MAX_NEW_TOKENS`` generated tokens, the text that they form,
    and ``maps``, which contains the weights (N, H, T, S) of each kind of attention.
    """
    tokenizer = translator.tokenizer
    src = translator.source_ids([words])  # (1, S)
    with torch.no_grad(), all_off(translator, off):
        tgt_out = translator.search(src, max_new_tokens=MAX_NEW_TOKENS)  # (1, T)
        tgt_in = torch.cat([torch.tensor([[tokenizer.bos_id]]), tgt_out[:, :-1]], dim=1)  # (1, T)
        maps = translator.model.attention_maps(src, tgt_in)
    return {
        "source": tokenizer.tokens(src[0]),
        "written": tokenizer.tokens(tgt_out[0]),
        "text": tokenizer.decode(tgt_out[0]),
        "maps": {place: weights[:, 0] for place, weights in maps.items()},
    }


def certainty(translator: Translator, words: str, german: str, off: Sequence[Head]) -> float:
    """Return how sure a right translation is, as the smallest lead of a token over all others.

    Returns -1 if the translation is wrong.
    """
    src = translator.source_ids([words])  # (1, S)
    with torch.no_grad(), all_off(translator, off):
        ids = translator.search(src, max_new_tokens=MAX_NEW_TOKENS)  # (1, T)
        if translator.tokenizer.decode(ids[0]) != german:
            return -1.0
        tgt_in = torch.cat([torch.tensor([[translator.tokenizer.bos_id]]), ids[:, :-1]], dim=1)
        logits = translator.model(src, tgt_in)  # (1, T, V)
    logits[..., translator.tokenizer.pad_id] = -torch.inf  # padding is never written
    best = logits.topk(2).values  # (1, T, 2)
    return (best[..., 0] - best[..., 1]).min().item()


def heads_that_break(translator: Translator, words: str, german: str) -> list[Head]:
    """Switch off heads, always the one that costs most certainty, until a translation is wrong.

    The list is empty if the translation is wrong with all heads.
    """
    heads = [[place, layer, n] for layer in range(2) for place in ATTENTIONS for n in range(4)]
    off: list[Head] = []
    while certainty(translator, words, german, off) >= 0:
        on = (head for head in heads if head not in off)
        off.append(min(on, key=lambda head: certainty(translator, words, german, [*off, head])))
    return off


class HeadsExplorer(Explorer):
    """An explorer that shows every head of the trained translator and can switch heads off.

    The translator is the one from chapter 11. If it is missing, training it takes half a minute.
    """

    module = "heads"
    title = "A translator's heads"
    question = "How few heads are enough?"
    alt = (
        "The translation of 345 and its letters, the attention map of one head, and small maps of "
        "all 24 heads of the translator, each with a switch. All heads are on."
    )
    text = Unicode("345").tag(sync=True, state=True)
    chosen = List(["cross", 1, 0]).tag(sync=True, state=True)
    off: List[Any] = List().tag(sync=True, state=True)
    reading = Dict().tag(sync=True, state=True)
    kernel = Bool(True).tag(sync=True)
    breaks = Int(0).tag(sync=True)  # how often the reader has pressed "Break it"

    def __init__(self, **kwargs: Any) -> None:
        self.translator = load_or_train()
        super().__init__(**kwargs)
        self.read()

    @observe("text", "off")
    def read(self, change: object = None) -> None:
        """Translate again, unless the text is not a number."""
        try:
            words = number_words(self.text)
        except ValueError:
            return
        reading = read_through(self.translator, words, self.off)
        for place, weights in reading["maps"].items():
            rounded = weights.double().mul(10**DECIMALS).round() / 10**DECIMALS
            reading["maps"][place] = rounded.tolist()
        number = read_number(words)
        self.reading = reading | {"number": number, "german": spell(number, "de"), "off": self.off}

    @observe("breaks")
    def break_it(self, change: object = None) -> None:
        """Switch off the few heads without which the translation is wrong."""
        number = self.reading["number"]
        words, german = spell(number, "en"), spell(number, "de")
        self.off = heads_that_break(self.translator, words, german)
