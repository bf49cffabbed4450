"""An explorer for positional encodings (paper, §3.5) and rotary position embeddings."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from traitlets import Int, List, Unicode

from course_lib.modern_decoder import apply_rope, rope_angles
from course_lib.positions import sinusoidal_encoding
from course_lib.records.results import record_of
from course_lib.viz.explorer_base import Explorer

RECORD = record_of("learned_positions")


@contextmanager
def float64() -> Iterator[None]:
    """Make float64 the default type, so that the course's tables use it."""
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(kept)


class PositionExplorer(Explorer):
    """An explorer that shows a chosen position's code, clocks and dot products.

    RoPE does not add a code to a vector but rotates queries and keys. To show this, we rotate the
    same vector at every position.

    Attributes:
        kind: "sinusoidal", "learned", "RoPE" or "none".
        learned: A trained model's positional embedding, times 100 and rounded.
    """

    module = "positions"
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

    def vectors(self) -> Tensor:
        """Return the vector of every position. Shape (L, d_model)."""
        length, width = self.positions, self.d_model
        with float64():
            if self.kind == "learned":
                return torch.tensor(self.learned[:length]) / 100
            if self.kind == "none":
                return torch.zeros(length, width)
            if self.kind == "sinusoidal" and self.base == 10_000:
                return sinusoidal_encoding(length, width)
            angles = rope_angles(length, width, self.base)  # (L, d_model / 2)
            if self.kind == "sinusoidal":
                return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
            word = torch.sin(1 + torch.arange(width) ** 2.0).expand(length, -1)
            return apply_rope(word, angles)

    def numbers(self) -> dict[str, Any]:
        """Compute all codes, one position's products, and the products' range at each distance."""
        table = self.vectors()
        all_products = table @ table.T  # (L, L)
        last = self.positions - 1
        position = min(self.position, last)
        products = all_products[position]  # (L,)
        others = products.clone()
        others[position] = -torch.inf
        best = (others > others.max() - 1e-6).nonzero().flatten()
        spans = [all_products.diagonal(k).aminmax() for k in range(-last, last + 1)]
        return {
            "table": table.tolist(),
            "products": products.tolist(),
            "similar": int(best[(best - position).abs().argmin()]),
            "lows": [low.item() for low, _ in spans],
            "highs": [high.item() for _, high in spans],
        }
