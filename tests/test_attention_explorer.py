"""The attention explorer: its numbers against the model's attention and autograd."""

import io
import math
import re
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import same_color
from PIL import Image

from course_lib.attention import scaled_dot_product_attention
from course_lib.viz.attention_explorer import (
    KEYS,
    LIMITS,
    VALUES,
    WORDS,
    AttentionExplorer,
    plane_scores,
    slope,
)
from course_lib.viz.plots import COLOURS

keys, values = torch.tensor(KEYS).double(), torch.tensor(VALUES).double()


@pytest.fixture
def explorer():
    """Make the explorer as the chapter does."""
    return AttentionExplorer()


@pytest.fixture(scope="module")
def kept():
    """Make an explorer that a property test moves from example to example, without pictures."""
    explorer = AttentionExplorer()
    explorer._painted = bytes
    return explorer


def turn(explorer, **settings):
    """Set controls."""
    for name, value in settings.items():
        explorer.controls[name].value = value
    return explorer


def said(explorer, what: str) -> float:
    """Read the number that follows a word of the sentence."""
    return float(re.search(rf"{what} (-?\d+(?:\.\d+)?(?:e-?\d+)?)", explorer.words.value)[1])


# --- the numbers


@settings(max_examples=10)
@given(x=st.integers(-30, 30), y=st.integers(-30, 30))
def test_at_width_2_it_is_the_attention_of_the_course(kept, x, y):
    explorer = turn(kept, x=x / 10, y=y / 10, temperature=1.0)
    query = torch.tensor([[x, y]]).double() / 10
    output, weights = scaled_dot_product_attention(query, keys, values)
    torch.testing.assert_close(explorer.weights, weights[0])
    torch.testing.assert_close(torch.tensor(explorer.output).double(), output[0])


def test_it_starts_at_the_picture_of_the_chapter(explorer):
    assert "The largest weight, 0.84, goes to “five”" in explorer.words.value


def test_scores_of_random_vectors_grow_as_the_slider_says(generator):
    """A score of the plane, scaled to width d_k, varies as a score of d_k random numbers does."""
    for d_k in (2, 32, 512):
        shape = (4000, 1, d_k)
        wide = torch.randn(shape, generator=generator) * torch.randn(shape, generator=generator)
        plane = torch.randn(2, 4000, 2, generator=generator).unbind(0)
        scores = [plane_scores(q, k.unsqueeze(0), d_k, False) for q, k in zip(*plane, strict=True)]
        assert torch.cat(scores).std().item() == pytest.approx(wide.sum(-1).std().item(), rel=0.1)


def test_divided_by_its_root_the_width_changes_nothing(explorer):
    start = explorer.picture.value
    for d_k in explorer.controls["d_k"].options:
        assert turn(explorer, d_k=d_k).picture.value == start


@pytest.mark.parametrize("d_k", [1, 4, 16, 64, 256])
def test_the_root_is_a_temperature(explorer, d_k):
    divided = turn(explorer, d_k=d_k).weights
    heated = turn(explorer, divide=False, temperature=math.sqrt(d_k)).weights
    torch.testing.assert_close(heated, divided)


def test_without_the_scale_wide_vectors_saturate_softmax(explorer, monkeypatch):
    monkeypatch.setattr(explorer, "_painted", bytes)  # its words alone are read
    turn(explorer, divide=False)
    gradients, largest = [], []
    for d_k in explorer.controls["d_k"].options:
        turn(explorer, d_k=d_k)
        gone = "Gradient below 0.00000001" in explorer.words.value
        gradients.append(0.0 if gone else said(explorer, "Gradient"))
        largest.append(float(explorer.weights.max()))
        assert ("saturated" in explorer.words.value) == (gradients[-1] < 0.001)
    assert gradients[-1] == 0 and gradients == sorted(gradients, reverse=True)
    assert largest == sorted(largest) and largest[-1] == pytest.approx(1)


@settings(max_examples=10)
@given(x=st.integers(-30, 30), y=st.integers(-30, 30), hot=st.sampled_from([0.5, 1.0, 4.0]))
def test_the_sentence_agrees_with_autograd(kept, x, y, hot):
    explorer = turn(kept, x=x / 10, y=y / 10, temperature=hot)
    leaf = explorer.scores.clone().requires_grad_()
    weights = leaf.softmax(dim=-1)
    weights[weights.argmax()].backward()
    assert said(explorer, "Gradient") == pytest.approx(leaf.grad.norm().item(), rel=0.06)
    entropy = torch.distributions.Categorical(explorer.weights).entropy().item()
    assert said(explorer, "Entropy") == pytest.approx(entropy, abs=0.006)
    assert said(explorer, "weight,") == pytest.approx(explorer.weights.max().item(), abs=0.006)
    assert said(explorer, "Scores from") == pytest.approx(explorer.scores.min().item(), abs=0.006)
    assert said(explorer, r"from -?[\d.]+ to") == pytest.approx(
        explorer.scores.max().item(), abs=0.006
    )
    assert f"Output [{explorer.output[0]:.2f}, {explorer.output[1]:.2f}]" in explorer.words.value
    assert "of at most 1.39 nats" in explorer.words.value  # ln 4


def test_a_gradient_too_small_for_one_minus_a_weight_is_still_measured():
    weights = torch.tensor([0.0, -100.0]).double().softmax(dim=-1)
    assert slope(weights) == pytest.approx(math.sqrt(2) * math.exp(-100), rel=1e-6)


def test_ties_are_named(explorer):
    assert "0.25, goes to every key" in turn(explorer, x=0, y=0).words.value
    turn(explorer, x=0, y=3)  # forty and five reach equally high
    assert "goes to “forty” and “five”" in explorer.words.value
    turn(explorer, x=-0.9, y=-1.2)  # no number that a computer holds exactly
    assert "goes to “three” and “hundred”" in explorer.words.value


def test_no_output_is_minus_zero(explorer):
    assert "Output [0.00, 1.71]" in turn(explorer, x=-0.9, y=0.9).words.value


# --- the controls


@pytest.mark.parametrize(
    "settings",
    [dict(x=-1.0), dict(y=-1.0), dict(divide=False, d_k=8), dict(d_k=8, divide=False),
     dict(temperature=4.0)],
    ids=lambda settings: next(iter(settings)),
)  # fmt: skip
def test_every_control_changes_picture_and_words(explorer, settings):
    picture, words, alt = explorer.picture.value, explorer.words.value, explorer.alt
    turn(explorer, **settings)
    assert explorer.picture.value != picture
    assert explorer.words.value != words
    assert explorer.alt != alt


def test_at_no_end_of_a_slider_is_anything_cut(explorer):
    ends = product([-3, 3], [-3, 3], [(1, True, 16), (512, False, 0.125), (512, True, 1)])
    for x, y, (d_k, divide, temperature) in ends:
        explorer._painted = bytes
        turn(explorer, x=x, y=y, d_k=d_k, divide=divide, temperature=temperature)
        del explorer._painted  # only the last one is looked at
        explorer._follow(None)
        assert 'role="status"' in explorer.words.value
        assert explorer.scores.abs().max() <= LIMITS[-1]
        shown = np.asarray(Image.open(io.BytesIO(explorer.picture.value)))
        for edge in (shown[0], shown[-1], shown[:, 0], shown[:, -1]):
            assert (edge == 255).all()


def test_the_planes_do_not_move_with_the_query(explorer):
    turn(explorer, x=3, y=3)
    for name in ("meeting", "blend"):
        assert explorer.axes[name].get_xlim() == explorer.axes[name].get_ylim() == (-3.4, 3.4)


def test_the_arrows_are_the_query_and_the_keys(explorer):
    turn(explorer, x=-1.2, y=0.8)
    query, offered = explorer.axes["meeting"].collections
    assert [*query.U, *query.V] == pytest.approx([-1.2, 0.8])
    assert np.stack([offered.U, offered.V], axis=-1).tolist() == KEYS
    assert same_color(query.get_facecolor(), COLOURS["query"])
    assert same_color(offered.get_facecolor(), COLOURS["key"])
    assert "A query at [-1.2, 0.8] and four keys" in explorer.alt


def test_values_are_as_large_as_their_weights_and_the_output_stands_where_it_is(explorer):
    turn(explorer, x=-1.2, y=0.8)
    ways, points, output = explorer.axes["blend"].collections
    assert points.get_offsets().tolist() == VALUES
    assert output.get_offsets().tolist() == [pytest.approx(explorer.output)]
    order = explorer.weights.argsort().tolist()
    assert np.argsort(points.get_sizes()).tolist() == np.argsort(ways.get_linewidths()).tolist()
    assert np.argsort(points.get_sizes()).tolist() == order
    for (colour,) in (ways.get_color(), points.get_facecolor()):
        assert same_color(colour[:3], COLOURS["value"])


def test_no_blend_leaves_the_field_of_the_values(explorer, generator):
    (field,) = explorer.axes["blend"].patches
    shares = torch.rand(50, 4, generator=generator).double().softmax(dim=-1)
    assert field.get_path().contains_points((shares @ values).numpy()).all()


def test_words_stand_beside_their_points(explorer):
    for name, points in (("meeting", KEYS), ("blend", VALUES)):
        texts = explorer.axes[name].texts
        assert [text.get_text() for text in texts] == WORDS
        for text, point in zip(texts, points, strict=True):
            assert math.dist(text.get_position(), point) < 1


def test_the_words_for_those_who_do_not_see_it_tell_scores_from_weights(explorer):
    score, weight = explorer.scores[3], explorer.weights[3]
    assert f"five: score {score:.2f}, weight {weight:.2f}." in explorer.alt
    assert [explorer.axes[name].get_ylabel() for name in ("scores", "weights")] == [
        "score",
        "weight",
    ]


@pytest.mark.parametrize(("x", "y"), [(-1.2, 0.8), (3.0, 3.0)])
def test_bars_are_as_high_as_their_numbers(explorer, x, y):
    turn(explorer, x=x, y=y)
    for name in ("scores", "weights"):
        heights = [bar.get_height() for bar in explorer.axes[name].patches]
        assert heights == pytest.approx(getattr(explorer, name).tolist())
        numbers = [float(text.get_text().replace("−", "-")) for text in explorer.axes[name].texts]
        assert numbers == pytest.approx(heights, abs=0.006)
        low, high = explorer.axes[name].get_ylim()
        assert low <= min(heights) and max(heights) <= high


# --- what the chapter says


def test_the_question_of_chapter_01_has_the_answer_it_gives(explorer, monkeypatch):
    monkeypatch.setattr(explorer, "_painted", bytes)  # its words alone are read
    start = explorer.words.value
    assert "0.84, goes to “five”" in start and "Gradient 0.16: it still answers" in start
    assert KEYS[3] == [2.0, 1.0] == [explorer.controls[axis].value for axis in "xy"]
    turn(explorer, divide=False)
    widths = explorer.controls["d_k"].options
    gone = [d_k for d_k in widths if "saturated" in turn(explorer, d_k=d_k).words.value]
    assert gone == [16, 32, 64, 128, 256, 512]
    assert f"{said(turn(explorer, d_k=16), 'Gradient'):.4f}" == "0.0003"
    assert f"{said(turn(explorer, d_k=64), 'Gradient'):.8f}" == "0.00000006"
    temperatures = [hot for _, hot in explorer.controls["temperature"].options]
    back = [hot for hot in temperatures if turn(explorer, temperature=hot).words.value == start]
    assert back == [8.0]
    turn(explorer, divide=True, temperature=1.0)
    assert {turn(explorer, d_k=d_k).words.value for d_k in widths} == {start}
