"""An explorer for positional encodings (paper, §3.5) and rotary position embeddings."""

import json

from traitlets import Int, List, Unicode

from course_lib.records.results import record_of
from course_lib.viz.explorer_base import Explorer

RECORD = record_of("learned_positions")


class PositionExplorer(Explorer):
    """An explorer that shows a chosen position's code, clocks and dot products.

    RoPE does not add a code to a vector but rotates queries and keys. To show this, we rotate the
    same vector at every position.

    Attributes:
        kind: "sinusoidal", "learned", "RoPE" or "none".
        learned: A trained model's positional embedding, times 100 and rounded.
    """

    module = "positions"
    title = "Positions"
    question = "Is the neighbor always the most similar?"
    alt = (
        "A map of the sinusoidal codes of 51 positions in 64 columns, with frames around position "
        "40 and the columns of pair 3; the dot products of position 40 with all positions, which "
        "are largest at position 40 itself and at its neighbors; and a clock for every pair of "
        "columns."
    )
    kind = Unicode("sinusoidal").tag(sync=True, state=True)
    d_model = Int(64).tag(sync=True, state=True)
    base = Int(10_000).tag(sync=True, state=True)
    positions = Int(51).tag(sync=True, state=True)
    position = Int(40).tag(sync=True, state=True)
    pair = Int(3).tag(sync=True, state=True)
    learned = List(List(Int()), json.loads(RECORD.read_text("utf-8"))).tag(sync=True, state=True)
