"""Sentences side by side: rows of ids, filled up to the longest."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.data.tokenizer import Tokenizer


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Fill every row up to the longest, so that they form one tensor.

    Args:
        rows: Token ids of B sentences.
        pad_id: What fills the rows up, at their end.

    Returns:
        Shape ``(B, L)``, with L the length of the longest row.

    Raises:
        ValueError: If there is no row.

    Example:
        >>> pad_rows([[5, 6, 7], [8]], pad_id=0)
        tensor([[5, 6, 7],
                [8, 0, 0]])
    """
    if not rows:
        raise ValueError("a batch needs at least one row")
    length = max(map(len, rows))
    filled = [[*row, *[pad_id] * (length - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long)  # said, for rows without a token


class BatchMaker:
    """Draw the batch of any step, the same one every time it is asked.

    Nothing has to be remembered between two steps, so a training that goes on after a stop
    sees the very batches it would have seen.

    Args:
        pairs: Source and target texts.
        tokenizer: Turns them into ids, once.
        batch_size: Sentences in a batch, B.
        seed: Another seed, another order.

    Raises:
        ValueError: If there are no pairs, or the batch size is below 1.
    """

    def __init__(
        self, pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, batch_size: int, seed: int = 0
    ) -> None:
        if not pairs or batch_size < 1:
            raise ValueError(f"no batch of {batch_size} sentences can be drawn from {len(pairs)}")
        self.rows = [(tokenizer.encode(s), tokenizer.encode_target(t)) for s, t in pairs]
        self.pad_id = tokenizer.pad_id
        self.batch_size = batch_size
        self.seed = seed

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Return source ids ``(B, S)`` and target ids ``(B, T + 1)``, bos to eos, for a step."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + step)
        chosen = torch.randint(len(self.rows), (self.batch_size,), generator=generator)
        sources, targets = zip(*(self.rows[i] for i in chosen.tolist()), strict=True)
        return pad_rows(sources, self.pad_id), pad_rows(targets, self.pad_id)
