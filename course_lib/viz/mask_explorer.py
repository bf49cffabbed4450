"""An explorer for masks, which define the keys that each query may look at (paper, §3.2.3)."""

import json
from typing import Any

import torch
from torch import Tensor
from traitlets import Dict, Int, List, Unicode

from course_lib.interop import to_additive, to_blocked
from course_lib.masks import causal_mask, padding_mask
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import PositionalEncoding
from course_lib.records.results import record_of
from course_lib.viz.explorer_base import Explorer

PAD, BOS, UNK = "[pad]", "[bos]", "[unk]"
ENCODER, DECODER, CROSS = "encoder self-attention", "decoder self-attention", "cross-attention"
MAX_WORDS = 6
D_MODEL = 8
RECORD = record_of("mask_layer")


class MaskExplorer(Explorer):
    """An explorer in which readers open or block a mask's cells and see a trained layer's weights.

    The layer has one head. It was trained to translate the number words from 1 to 999 into German.
    Words that are not in its vocabulary get the vector of [unk].

    Attributes:
        mask: "causal", "padding", "both", "nothing blocked" or "your own".
        cells: The mask "your own" as six rows of six digits, where 1 means an open cell.
        row: The row of the cursor, which is the position of a query.
        column: The column of the cursor, which is the position of a key.
        layer: The embeddings and the query and key projections, times 100 and rounded.
    """

    module = "masks"
    alt = (
        "A table shows which query of “[bos] drei hundert fünf [pad] [pad]” may look at which "
        "key. Below it is the row of “fünf” in three conventions, and next to it are the weights "
        "of a trained layer. All cells above the diagonal and in both padding columns are blocked, "
        "so nothing leaks from the future."
    )
    attention = Unicode(DECODER).tag(sync=True, state=True)
    mask = Unicode("both").tag(sync=True, state=True)
    cells = List(Unicode(), ["1" * MAX_WORDS] * MAX_WORDS).tag(sync=True, state=True)
    source = Unicode("three hundred five [pad]").tag(sync=True, state=True)
    target = Unicode("[bos] drei hundert fünf [pad] [pad]").tag(sync=True, state=True)
    row = Int(3).tag(sync=True, state=True)
    column = Int(3).tag(sync=True, state=True)
    layer = Dict(json.loads(RECORD.read_text("utf-8"))).tag(sync=True, state=True)

    def numbers(self) -> dict[str, Any]:
        """Compute the mask, the chosen row, the weights, and how much weight leaks in each row."""
        queries = (self.source if self.attention == ENCODER else self.target).split()
        keys = (self.target if self.attention == DECODER else self.source).split()
        mask = self.make_mask(len(queries), keys)
        weights = self.make_weights(queries, keys, mask)
        row = mask[min(self.row, len(queries) - 1)]  # (S,)
        is_real = torch.tensor([[query != PAD] for query in queries])  # (T, 1)
        leaked = torch.zeros(len(queries))
        if self.attention == DECODER:
            leaked = (weights.triu(1) * is_real).sum(dim=-1)  # (T,)
        values = {"mask": mask, "weights": weights, "leaked": leaked}
        values |= {"blocked": to_blocked(row), "additive": to_additive(row)}
        return {name: value.tolist() for name, value in values.items()}

    def make_mask(self, length: int, keys: list[str]) -> Tensor:
        """Build the chosen mask for some queries and keys. Shape (T, S), True = may look."""
        ids = torch.tensor([[key != PAD for key in keys]]).int()  # (1, S), 0 is padding
        causal = causal_mask(MAX_WORDS)[:length, : len(keys)]
        real = padding_mask(ids, pad_id=0)[0, 0].expand(length, -1)
        own = torch.tensor([[cell == "1" for cell in row] for row in self.cells])
        masks = {
            "causal": causal,
            "padding": real,
            "both": causal & real,
            "nothing blocked": torch.ones_like(real),
            "your own": own[:length, : len(keys)],
        }
        return masks[self.mask]

    def make_weights(self, queries: list[str], keys: list[str], mask: Tensor) -> Tensor:
        """Compute the trained layer's attention weights in float64. Shape (T, S)."""
        vectors, projections = self.layer["embedding"], self.layer[self.attention]
        attention = MultiHeadAttention(D_MODEL, 1, bias=False).double()
        for name, projection in projections.items():
            getattr(attention, name).weight.data = torch.tensor(projection).double() / 100
        positions = PositionalEncoding(D_MODEL, MAX_WORDS)
        query, key = (
            positions(
                torch.tensor([[vectors.get(word, vectors[UNK]) for word in words]]).double() / 100
            )
            for words in (queries, keys)
        )  # (1, T, d_model), (1, S, d_model)
        return attention(query, key, key, mask, need_weights=True)[1][0, 0]
