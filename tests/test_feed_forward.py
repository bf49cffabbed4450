"""FeedForward agrees with torch's layers and treats every position alone and alike."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    D_FF,
    B,
    T,
    assert_equal,
    assert_every_parameter_learns,
    feed_forward_by_hand,
    make_generator,
    normal,
    randomize,
    says,
    seeded,
    trace,
)
from torch import nn

from course_lib.feed_forward import FeedForward

WIDTH = 6


# --- parity


@pytest.mark.parametrize(("activation", "theirs"), [("relu", nn.ReLU), ("gelu", nn.GELU)])
@pytest.mark.parametrize("shape", [(WIDTH,), (T, WIDTH), (B, T, WIDTH)])
def test_agrees_with_torch(generator, activation, theirs, shape):
    ours = randomize(FeedForward(WIDTH, D_FF, activation=activation))
    theirs = nn.Sequential(nn.Linear(WIDTH, D_FF), theirs(), nn.Linear(D_FF, WIDTH)).double()
    names = {"linear1.weight": "0.weight", "linear1.bias": "0.bias"}
    names |= {"linear2.weight": "2.weight", "linear2.bias": "2.bias"}
    theirs.load_state_dict({names[name]: value for name, value in ours.state_dict().items()})
    x = [normal(generator, *shape)]
    mine, other = trace(ours, x, ours), trace(theirs, x, theirs)
    mine["parameters"] = {names[name]: grad for name, grad in mine["parameters"].items()}
    assert_equal(mine, other)


def test_agrees_with_the_formula_of_the_paper(generator):
    layer, x = randomize(FeedForward(WIDTH, D_FF)), [normal(generator, B, T, WIDTH)]
    by_hand = trace(lambda x: feed_forward_by_hand(layer, x), x, layer)
    assert_equal(trace(layer, x, layer), by_hand)


def test_numbers_worked_out_by_hand():
    # two features, max(0, x) and max(0, -x), added up: the absolute value; ReLU makes the bend
    layer = FeedForward(1, 2)
    layer.load_state_dict(
        {
            "linear1.weight": torch.tensor([[1.0], [-1.0]]),
            "linear1.bias": torch.zeros(2),
            "linear2.weight": torch.tensor([[1.0, 1.0]]),
            "linear2.bias": torch.zeros(1),
        }
    )
    assert layer(torch.tensor([[-3.0], [0.0], [2.0]])).tolist() == [[3.0], [0.0], [2.0]]


# --- properties


@given(seed=st.integers(0, 2**31), t=st.integers(0, T - 1))
def test_nothing_leaks_from_one_position_to_another(seed, t):
    generator, layer = make_generator(seed), randomize(FeedForward(WIDTH, D_FF), seed)
    x = normal(generator, B, T, WIDTH)
    changed = x.clone()
    changed[0, t] += 1.0
    same = torch.ones(B, T, dtype=torch.bool)
    same[0, t] = False
    before, after = layer(x), layer(changed)
    assert_equal(before[same], after[same])
    assert (before[~same] != after[~same]).any()


@given(seed=st.integers(0, 2**31), order=st.permutations(range(T)))
def test_every_position_is_treated_alike(seed, order):
    layer, x = randomize(FeedForward(WIDTH, D_FF), seed), normal(make_generator(seed), B, T, WIDTH)
    assert_equal(layer(x[:, order]), layer(x)[:, order])


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_gradients_reach_every_parameter(generator, activation):
    layer = randomize(FeedForward(WIDTH, D_FF, activation=activation))
    x = [normal(generator, B, T, WIDTH)]
    assert_every_parameter_learns(layer, trace(layer, x, layer)["parameters"])


def test_the_input_is_left_unchanged(generator):
    x = normal(generator, B, T, WIDTH)
    kept = x.clone()
    randomize(FeedForward(WIDTH, D_FF, dropout=0.5))(x)
    assert torch.equal(x, kept)


def test_dropout_acts_on_the_features_inside(generator):
    layer, x = randomize(FeedForward(WIDTH, D_FF, dropout=0.75)), normal(generator, B, T, WIDTH)
    features = layer.linear1(x).relu()
    layer.linear2 = nn.Identity()  # so that the features show
    with seeded():
        output = layer(x)
    active = features > 0
    dropped = active & (output == 0)
    assert 0 < dropped.sum() < active.sum()
    assert_equal(output[~dropped], 4 * features[~dropped])


def test_without_its_features_only_the_last_bias_is_left(generator):
    layer = randomize(FeedForward(WIDTH, D_FF, dropout=1.0))
    assert_equal(layer(normal(generator, B, T, WIDTH)), layer.linear2.bias.expand(B, T, WIDTH))


def test_nothing_is_random_in_eval_mode(generator):
    layer, x = randomize(FeedForward(WIDTH, D_FF, 0.5)).eval(), normal(generator, B, T, WIDTH)
    assert_equal(layer(x), feed_forward_by_hand(layer, x))


def test_as_many_numbers_as_two_matrices_and_two_biases():
    layer = FeedForward(WIDTH, D_FF)
    assert sum(p.numel() for p in layer.parameters()) == 2 * 6 * 11 + 11 + 6


# --- limits


def test_one_token_in_a_batch_of_one_is_treated_as_in_any_batch(generator):
    layer, x = randomize(FeedForward(WIDTH, D_FF)), normal(generator, B, T, WIDTH)
    assert_equal(layer(x[1:, 2:3]), layer(x)[1:, 2:3])


# --- errors


def test_an_unknown_activation_is_named():
    with pytest.raises(ValueError, match=says("swish", "gelu", "relu")):
        FeedForward(WIDTH, D_FF, activation="swish")


def test_another_width_is_named():
    with pytest.raises(ValueError, match=says(WIDTH, (B, T, 5))):
        FeedForward(WIDTH, D_FF)(torch.zeros(B, T, 5))


@pytest.mark.parametrize("sizes", [(0, 11), (6, 0), (6, -1)])
def test_sizes_below_1_are_refused(sizes):
    with pytest.raises(ValueError, match=says(f"d_model={sizes[0]}", f"d_ff={sizes[1]}")):
        FeedForward(*sizes)


@pytest.mark.parametrize("dropout", [-0.1, 1.5])
def test_a_share_outside_0_to_1_is_refused(dropout):
    with pytest.raises(ValueError, match=says(dropout)):
        FeedForward(WIDTH, D_FF, dropout)
