"""Train the attention layers whose weights the mask explorer shows, and write them to a file.

A small English-to-German translator for the number words from 1 to 999 has one layer for each kind
of attention in the Transformer. Each layer reads embeddings with positional encodings, so the
embeddings and the query and key projections determine all attention weights. The file contains
the embeddings and projections, rounded to two decimals.
python experiments/mask_layer.py takes a few seconds.
"""

import json
import re

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from course_lib.add_norm import AddNorm
from course_lib.data.number_words import spell
from course_lib.feed_forward import FeedForward
from course_lib.masks import causal_mask, padding_mask
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import PositionalEncoding
from course_lib.viz.mask_explorer import BOS, CROSS, D_MODEL, DECODER, ENCODER, PAD, RECORD, UNK

STEPS = 250
BATCH_SIZE = 64
LEARNING_RATE = 0.02
HIDDEN = 0.03  # the fraction of words that [unk] replaces in training
EOS = "[eos]"
GERMAN = (
    "eins ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig "
    "neunzig hundert und"
)
LONGEST_FIRST = sorted(GERMAN.split(), key=len, reverse=True)
PAIRS = [
    (
        re.findall(r"\w+", spell(number, "en")),
        re.findall("|".join(LONGEST_FIRST), spell(number, "de")),
    )
    for number in range(1, 1000)
]
WORDS = [PAD, BOS, EOS, UNK, *sorted({word for pair in PAIRS for side in pair for word in side})]
PAD_ID, UNK_ID = WORDS.index(PAD), WORDS.index(UNK)


class SmallTranslator(nn.Module):
    """A translator with one attention layer of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), D_MODEL)
        self.positions = PositionalEncoding(D_MODEL, max_len=8)
        attentions = {name: MultiHeadAttention(D_MODEL, 1, bias=False) for name in KINDS}
        self.attentions = nn.ModuleDict(attentions)
        self.feed_forward = FeedForward(D_MODEL, 64)
        self.add_norm1, self.add_norm2 = AddNorm(D_MODEL), AddNorm(D_MODEL)
        self.to_logits = nn.Linear(D_MODEL, len(WORDS))

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Compute the logits of the next words. Shapes: (B, S) and (B, T) give (B, T, V)."""
        encoder, decoder, cross = self.attentions.values()
        source = self.positions(self.embed(src))  # (B, S, d_model)
        target = self.positions(self.embed(tgt_in))  # (B, T, d_model)
        src_mask = padding_mask(src, PAD_ID)  # (B, 1, 1, S)
        tgt_mask = causal_mask(tgt_in.size(1)) & padding_mask(tgt_in, PAD_ID)  # (B, 1, T, T)
        memory = source + encoder(source, source, source, src_mask)[0]  # (B, S, d_model)
        read = cross(target, source, memory, src_mask)[0]  # (B, T, d_model)
        y = self.add_norm1(target, lambda x: read + decoder(x, x, x, tgt_mask)[0])
        return self.to_logits(self.add_norm2(y, self.feed_forward))


KINDS = (ENCODER, DECODER, CROSS)


def make_ids(sentences: list[list[str]]) -> Tensor:
    """Turn sentences into ids (B, L), padded to the same length."""
    rows = [torch.tensor([WORDS.index(word) for word in sentence]) for sentence in sentences]
    return pad_sequence(rows, batch_first=True, padding_value=PAD_ID)


def train() -> tuple[SmallTranslator, float]:
    """Train a translator; return it, and the fraction of all words that it predicts correctly."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    src = make_ids([english for english, _ in PAIRS])  # (B, S)
    tgt = make_ids([[BOS, *german, EOS] for _, german in PAIRS])  # (B, T + 1)
    model = SmallTranslator()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    for _ in range(STEPS):
        rows = torch.randint(len(PAIRS), (BATCH_SIZE,))  # (B,)
        src_in, tgt_in = (hide(ids[rows]) for ids in (src, tgt[:, :-1]))
        logits = model(src_in, tgt_in).transpose(1, 2)  # (B, V, T)
        loss = F.cross_entropy(logits, tgt[rows, 1:], ignore_index=PAD_ID)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = model(src, tgt[:, :-1]).argmax(dim=-1) == tgt[:, 1:]  # (B, T)
    return model, right[tgt[:, 1:] != PAD_ID].double().mean().item()


def hide(ids: Tensor) -> Tensor:
    """Replace some words with [unk], but keep padding and [bos]."""
    hidden = (torch.rand(ids.shape) < HIDDEN) & (ids > UNK_ID)
    return ids.masked_fill(hidden, UNK_ID)


def record(model: SmallTranslator) -> dict:
    """Collect the numbers that determine the attention weights, rounded to two decimals."""
    state = model.state_dict()
    rounded = {name: (100 * value).round().int().tolist() for name, value in state.items()}
    layers = {
        kind: {name: rounded[f"attentions.{kind}.{name}.weight"] for name in ("w_q", "w_k")}
        for kind in KINDS
    }
    return {"embedding": dict(zip(WORDS, rounded["embed.weight"], strict=True)), **layers}


if __name__ == "__main__":
    model, accuracy = train()
    print(f"{accuracy:.1%} of the next words are correct")
    text = json.dumps(record(model), ensure_ascii=False)
    text = text.replace('"w_', '\n"w_').replace('], "', '],\n"').replace('{"[', '{\n"[')
    RECORD.write_text(text + "\n", encoding="utf-8")
