"""An explorer for masks, which define the keys that each query may look at (paper, §3.2.3)."""

import json

from traitlets import Dict, Int, List, Unicode

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
    title = "Masks"
    question = "Who sees the future?"
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
