"""Batches by tokens are nearly full, have little padding, and depend only on seed and step."""

import random

import pytest
import torch
from torch import nn

from course_lib.batching import TokenBatches, average_weights, padding_fraction


def make_rows(count, seed=0):
    """Draw pairs with the lengths of captions; the first id identifies a pair."""
    rng = random.Random(seed)
    rows = []
    for place in range(count):
        source = max(4, min(50, round(rng.gauss(15, 5))))
        target = max(4, min(50, source + round(rng.gauss(0, 2))))
        rows.append(([10 + place] * source, [1, *[10 + place] * (target - 1), 2]))
    return rows


@pytest.fixture(scope="module")
def batches():
    return TokenBatches(make_rows(3_000), 2_000, seed=3, pool_size=1_000, epochs=3)


def test_an_epoch_contains_every_pair_once(batches):
    for epoch in (1, 2):
        assert sorted(sum(batches.plan(epoch), [])) == list(range(3_000))


def test_no_batch_is_larger_than_requested_and_most_are_nearly_full(batches):
    sizes = []
    for step in range(1, batches.ends[0] + 1):
        src, tgt = batches(step)
        sizes.append(src.numel() + tgt[:, 1:].numel())
    assert max(sizes) <= 2_000
    assert sorted(sizes)[len(sizes) // 10] > 1_800  # nine in ten; pools end with a small batch


def test_padding_is_below_a_tenth_and_far_below_that_of_random_batches(batches):
    order = random.Random(1).sample(range(3_000), 3_000)
    usual = [order[start : start + 64] for start in range(0, 3_000, 64)]
    assert padding_fraction(batches.lengths, batches.plan(1)) < 0.10
    assert padding_fraction(batches.lengths, usual) > 0.35


def test_a_batch_depends_only_on_seed_and_step(batches):
    again = TokenBatches(make_rows(3_000), 2_000, seed=3, pool_size=1_000, epochs=2)
    for step in (batches.ends[0] + 1, batches.ends[0], 1):
        assert all(map(torch.equal, batches(step), again(step)))


def test_epochs_and_seeds_shuffle_the_pairs_differently(batches):
    other = TokenBatches(make_rows(3_000), 2_000, seed=4, pool_size=1_000)
    assert batches.plan(1) != batches.plan(2)
    assert batches.plan(1) != other.plan(1)
    together = {frozenset(batch) for batch in batches.plan(1)}
    assert not together & {frozenset(batch) for batch in batches.plan(2)}


def test_pairs_stay_together_and_are_padded_at_the_end():
    rows = [([7, 7], [1, 7, 2]), ([8], [1, 8, 8, 2])]
    src, tgt = TokenBatches(rows, 100, pad_id=5)(1)
    assert sorted(zip(src.tolist(), tgt.tolist(), strict=True)) == [
        ([7, 7], [1, 7, 2, 5]),
        ([8, 5], [1, 8, 8, 2]),
    ]


def test_every_step_has_a_batch_from_its_epoch(batches):
    assert [*batches.plan(1), *batches.plan(2), *batches.plan(3)] == batches.steps
    assert batches.ends[1] - batches.ends[0] == len(batches.plan(2))
    for step in (0, batches.ends[2] + 1):
        with pytest.raises(ValueError, match=f"between 1 and {batches.ends[2]}, got step={step}"):
            batches(step)


def test_the_average_of_one_checkpoint_is_itself_and_different_models_are_rejected():
    state = nn.Linear(2, 3).state_dict()
    assert all(torch.equal(v, state[k]) for k, v in average_weights([state]).items())
    large = [{"w": torch.tensor([value])} for value in (1e8, 1.0, -1e8)]  # 0 in float32
    torch.testing.assert_close(average_weights(large)["w"], torch.tensor([1 / 3]))
    with pytest.raises(ValueError, match="torch.int64"):
        average_weights([{"w": torch.tensor([number])} for number in (1, 2)])
    with pytest.raises(ValueError, match="names or shapes differ"):
        average_weights([state, nn.Linear(3, 2).state_dict()])
