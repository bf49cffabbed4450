"""The batch of any step: many short pairs or few long ones, about as many tokens each (§5.1)."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.batching import batch_by_tokens
from course_lib.data import pad_rows

Row = tuple[list[int], list[int]]


class TokenBatches:
    """Draw the batch of any step, with little padding, the same one every time it is asked.

    Paper: §5.1, sentence pairs batched together by approximate sequence length.
    Differs: the paper counts 25,000 source and 25,000 target tokens; here both are one sum.

    An epoch shuffles all pairs, deals them into pools, cuts each pool by ``batch_by_tokens``, and
    shuffles the batches. Which step sees which batch follows from the seed and the step alone.

    Args:
        rows: Source ids, and target ids from bos to eos, of every pair.
        tokens: Most positions in a batch, padding included: B · (S + T).
        pad_id: What fills rows up.
        seed: Another seed, another order.
        pool_size: Pairs sorted together. A larger pool needs less padding, and mixes less.
        epochs: How often every pair is drawn.

    Raises:
        ValueError: If there are no pairs, one is longer than a whole batch, or a size is below 1.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        tokens: int,
        *,
        pad_id: int = 0,
        seed: int = 0,
        pool_size: int = 5_000,
        epochs: int = 1,
    ) -> None:
        if not rows or min(tokens, pool_size) < 1:
            raise ValueError(f"no batches: {len(rows)} pairs, tokens={tokens}, {pool_size=}")
        self.rows = rows
        self.lengths = [(len(source), len(target) - 1) for source, target in rows]  # S, T
        longest = max(map(sum, self.lengths))
        if longest > tokens:
            raise ValueError(f"a pair of {longest} tokens fits in no batch of tokens={tokens}")
        self.tokens = tokens
        self.pad_id = pad_id
        self.seed = seed
        self.pool_size = pool_size
        plans = [self.plan(epoch) for epoch in range(1, epochs + 1)]
        self.ends = list(itertools.accumulate(map(len, plans)))  #: the last step of every epoch
        self.steps = list(itertools.chain.from_iterable(plans))

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch, from 1, each a list of positions in ``rows``."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        order = torch.randperm(len(self.rows), generator=generator)
        batches = []
        for pool in map(Tensor.tolist, order.split(self.pool_size)):
            cut = batch_by_tokens([self.lengths[place] for place in pool], self.tokens)
            batches += [[pool[i] for i in batch] for batch in cut]
        mixed = torch.randperm(len(batches), generator=generator).tolist()
        return [batches[place] for place in mixed]

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Return source ids ``(B, S)`` and target ids ``(B, T + 1)``, bos to eos, for a step."""
        if not 1 <= step <= len(self.steps):
            raise ValueError(f"steps count from 1 to {len(self.steps)}, got step={step}")
        return self.batch(self.steps[step - 1])

    def batch(self, places: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return source ids ``(B, S)`` and target ids ``(B, T + 1)`` of some pairs."""
        sources, targets = zip(*(self.rows[place] for place in places), strict=True)
        return pad_rows(sources, self.pad_id), pad_rows(targets, self.pad_id)
