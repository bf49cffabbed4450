"""KV caches of one attention, right and wrong: what a learner's test is tried on."""

import torch
from torch import Tensor

from course_lib.kv_cache import AttentionCache


class CacheByCat:
    """Put new keys and values behind the old ones."""

    def __init__(self, max_len: int) -> None:
        self.kept: list[Tensor] | None = None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """Return all so far."""
        new = [keys, values]
        old = [x[:, :, :0] for x in new] if self.kept is None else self.kept
        self.kept = [torch.cat(pair, dim=2) for pair in zip(old, new, strict=True)]
        return tuple(self.kept)

    def reorder(self, rows: Tensor) -> None:
        """Pick rows of both."""
        self.kept = [x[rows] for x in self.kept]


class ValuesStay(CacheByCat):
    """Pick rows of the keys, and leave the values where they are."""

    def reorder(self, rows: Tensor) -> None:
        """Forget the values."""
        self.kept[0] = self.kept[0][rows]


class NothingReordered(CacheByCat):
    """Leave all rows where they are."""

    def reorder(self, rows: Tensor) -> None:
        """Do nothing."""


class KeysForValues(CacheByCat):
    """Keep the keys twice."""

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """Forget the values."""
        return super().append(keys, keys)


RIGHT = (AttentionCache, CacheByCat)
WRONG = {
    "values_stay": ("`reorder` picks rows of the keys, and leaves the values", ValuesStay),
    "nothing_reordered": ("`reorder` changes nothing", NothingReordered),
    "keys_for_values": ("the keys are kept twice, and the values not", KeysForValues),
}
