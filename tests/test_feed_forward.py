"""FeedForward agrees with torch's layers, and applies dropout only to features."""

import pytest
from dimensions import D_FF, B, T
from parity import assert_equal, trace
from random_inputs import normal, randomize, seeded
from torch import nn

from course_lib.feed_forward import FeedForward

WIDTH = 6


@pytest.mark.parametrize(
    ("activation", "theirs"), [("relu", nn.ReLU), ("gelu", nn.GELU), ("silu", nn.SiLU)]
)
@pytest.mark.parametrize("shape", [(WIDTH,), (B, T, WIDTH)])
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


def test_dropout_acts_on_the_features_inside(generator):
    layer, x = randomize(FeedForward(WIDTH, D_FF, dropout=0.75)), normal(generator, B, T, WIDTH)
    features = layer.linear1(x).relu()
    layer.linear2 = nn.Identity()  # so that the output shows the features
    with seeded():
        output = layer(x)
    active = features > 0
    dropped = active & (output == 0)
    assert 0 < dropped.sum() < active.sum()
    assert_equal(output[~dropped], 4 * features[~dropped])
