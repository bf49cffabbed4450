"""The parts of a batch contain each row once, and their gradients average to the batch's."""

from copy import deepcopy

import pytest
import torch
from dimensions import PAD
from hypothesis import given
from hypothesis import strategies as st
from parity import assert_equal
from random_inputs import make_generator, random_ids, tiny_transformer
from torch import Tensor
from torch.nn import functional as F

from course_lib.data_parallel import split_batch, token_loss_scale

LENGTHS = (8, 1, 3, 2, 6)  # real target tokens of each row; every second one is long
sizes = given(st.lists(st.integers(0, 5)), st.integers(1, 9))


@sizes
def test_rows_keep_their_order_and_go_to_each_rank_in_turn(rows, world_size):
    parts = [split_batch(rows, rank, world_size) for rank in range(world_size)]
    assert all(type(part) is list for part in parts)
    dealt = [iter(part) for part in parts]
    for number, row in enumerate(rows):
        assert next(dealt[number % world_size]) is row
    assert all(next(rest, None) is None for rest in dealt)


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Draw sources, decoder inputs and targets, with padding at the end."""
    src, tgt_in, tgt_out = (
        random_ids(make_generator(seed), 10, len(LENGTHS), length)
        for seed, length in enumerate((7, 8, 8))
    )
    for row, length in enumerate(LENGTHS):
        tgt_in[row, length:] = tgt_out[row, length:] = PAD
    return src, tgt_in, tgt_out


def mean_gradient(model: torch.nn.Module, rows: list[int]) -> tuple[dict[str, Tensor], int]:
    """Compute the gradient of the mean loss of some rows, on a copy; count their tokens."""
    copy, (src, tgt_in, tgt_out) = deepcopy(model), (part[rows] for part in batch())
    logits, tokens = copy(src, tgt_in), int((tgt_out != PAD).sum())
    loss = F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten(), ignore_index=PAD)
    loss.backward()
    return {name: p.grad for name, p in copy.named_parameters()}, tokens


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_scaled_gradients_average_to_the_gradient_of_the_whole_batch(world_size):
    model, rows = tiny_transformer(), list(range(len(LENGTHS)))
    whole, all_tokens = mean_gradient(model, rows)
    parts = [
        mean_gradient(model, split_batch(rows, rank, world_size)) for rank in range(world_size)
    ]
    assert sum(tokens for _, tokens in parts) == all_tokens == sum(LENGTHS)

    def mean(name: str, weigh: bool) -> Tensor:
        """Average over processes."""
        weights = [token_loss_scale(n, all_tokens, world_size) if weigh else 1.0 for _, n in parts]
        pairs = zip(weights, parts, strict=True)
        return sum(w * gradients[name] for w, (gradients, _) in pairs) / world_size

    assert_equal({name: mean(name, weigh=True) for name in whole}, whole)
    gap = max((mean(name, weigh=False) - whole[name]).abs().max() for name in whole)
    assert gap > 1e-3 or world_size == 1, "the plain mean should be different"
