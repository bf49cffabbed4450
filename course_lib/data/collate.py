"""Padded batches of token ids."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.data.tokenizer import Tokenizer


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Pad every row to the length of the longest, and return one tensor.

    Args:
        rows: Token ids of B sentences.
        pad_id: The id to append to shorter rows.

    Returns:
        Shape ``(B, L)``, where L is the length of the longest row.

    Raises:
        ValueError: If there are no rows.

    Example:
        >>> pad_rows([[5, 6, 7], [8]], pad_id=0)
        tensor([[5, 6, 7],
                [8, 0, 0]])
    """
    if not rows:
        raise ValueError("a batch needs at least one row")
    length = max(map(len, rows))
    padded = [[*row, *[pad_id] * (length - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long)  # rows without a token would become floats


class BatchMaker:
    """Random batches for training steps; the same step always gets the same batch.

    A batch depends only on the seed and the step, so a resumed training run gets the same batches
    as an uninterrupted one.

    Args:
        pairs: Source and target texts.
        tokenizer: Turns the texts into ids, once for all batches.
        batch_size: Number of sentences in a batch, B.
        seed: Random seed.

    Raises:
        ValueError: If there are no pairs, or the batch size is below 1.
    """

    def __init__(
        self, pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, batch_size: int, seed: int = 0
    ) -> None:
        if not pairs or batch_size < 1:
            raise ValueError(f"cannot draw batches of {batch_size} pairs from {len(pairs)} pairs")
        self.rows = [(tokenizer.encode(s), tokenizer.encode_target(t)) for s, t in pairs]
        self.pad_id = tokenizer.pad_id
        self.batch_size = batch_size
        self.seed = seed

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Return source ids ``(B, S)`` and target ids ``(B, T + 1)``, which run from bos to eos."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + step)
        chosen = torch.randint(len(self.rows), (self.batch_size,), generator=generator)
        sources, targets = zip(*(self.rows[i] for i in chosen.tolist()), strict=True)
        return pad_rows(sources, self.pad_id), pad_rows(targets, self.pad_id)
