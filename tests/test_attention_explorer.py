"""The attention explorer: its numbers against the course's attention and autograd."""

import math
import re

import numpy as np
import pytest
import torch
from figure_asserts import answer_of_chapter, fixture_of, turn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib.attention import scaled_dot_product_attention
from course_lib.viz.attention_explorer import (
    KEYS,
    VALUES,
    AttentionExplorer,
    gradient_norm,
    plane_scores,
)

coordinate = st.integers(-30, 30).map(lambda tenths: tenths / 10)
explorer = fixture_of(AttentionExplorer)


def said(explorer, what: str) -> float:
    """Read the number that follows a word of the sentence."""
    return float(re.search(rf"{what} (-?\d+(?:\.\d+)?(?:e-?\d+)?)", explorer.sentence.value)[1])


@settings(max_examples=10, suppress_health_check=list(HealthCheck))  # one explorer for all
@given(x=coordinate, y=coordinate)
def test_at_width_2_it_is_the_attention_of_the_course(explorer, x, y):
    turn(explorer, x=x, y=y, temperature=1.0)
    query = torch.tensor([[x, y]]).double()
    output, weights = scaled_dot_product_attention(query, KEYS, VALUES)
    torch.testing.assert_close(explorer.weights, weights[0])
    torch.testing.assert_close(explorer.output, output[0])


def test_scores_of_random_vectors_grow_as_the_slider_says(generator):
    """A score of the plane, scaled to width d_k, varies as a score of d_k random numbers does."""
    for d_k in (2, 32, 512):
        shape = (4000, 1, d_k)
        wide = torch.randn(shape, generator=generator) * torch.randn(shape, generator=generator)
        plane = torch.randn(2, 4000, 2, generator=generator).unbind(0)
        scores = [plane_scores(q, k.unsqueeze(0), d_k, False) for q, k in zip(*plane, strict=True)]
        assert torch.cat(scores).std().item() == pytest.approx(wide.sum(-1).std().item(), rel=0.1)


def test_divided_by_its_root_the_width_changes_nothing_and_the_root_is_a_temperature(explorer):
    start = explorer.weights
    for d_k in explorer.controls["d_k"].options:
        turn(explorer, d_k=d_k, divide=True, temperature=1.0)
        assert explorer.weights.equal(start)
        if math.sqrt(d_k) in [value for _, value in explorer.controls["temperature"].options]:
            turn(explorer, divide=False, temperature=math.sqrt(d_k))
            torch.testing.assert_close(explorer.weights, start)


@settings(max_examples=10, suppress_health_check=list(HealthCheck))  # one explorer for all
@given(x=coordinate, y=coordinate, hot=st.sampled_from([0.5, 1.0, 4.0]))
def test_the_sentence_agrees_with_autograd(explorer, x, y, hot):
    turn(explorer, x=x, y=y, temperature=hot)
    leaf = explorer.scores.clone().requires_grad_()
    weights = leaf.softmax(dim=-1)
    weights[weights.argmax()].backward()
    assert said(explorer, "Gradient") == pytest.approx(leaf.grad.norm().item(), rel=0.06)
    entropy = torch.distributions.Categorical(explorer.weights).entropy().item()
    assert said(explorer, "Entropy") == pytest.approx(entropy, abs=0.006)
    assert said(explorer, "weight,") == pytest.approx(explorer.weights.max().item(), abs=0.006)
    low, high = (value.item() for value in explorer.scores.aminmax())
    assert said(explorer, "Scores from") == pytest.approx(low, abs=0.006)
    assert said(explorer, r"from -?[\d.]+ to") == pytest.approx(high, abs=0.006)
    assert f"[{explorer.output[0]:.2f}, {explorer.output[1]:.2f}]" in explorer.sentence.value


def test_a_gradient_too_small_for_one_minus_a_weight_is_still_measured():
    weights = torch.tensor([0.0, -100.0]).double().softmax(dim=-1)
    assert gradient_norm(weights) == pytest.approx(math.sqrt(2) * math.exp(-100), rel=1e-6)


def test_ties_are_named_and_no_output_is_minus_zero(explorer):
    assert "goes to every key" in turn(explorer, x=0, y=0)
    turn(explorer, x=-0.9, y=-1.2)  # a tie, of no number that a computer holds exactly
    assert "goes to “three” and “hundred”" in explorer.sentence.value
    assert "[0.00, " in turn(explorer, x=-0.9, y=0.9)


def test_the_panels_show_the_vectors_the_scores_the_weights_and_the_output(explorer):
    turn(explorer, x=-1.2, y=0.8)
    meeting, blend, *barred = explorer.axes
    query, offered = meeting.collections
    assert [*query.U, *query.V] == pytest.approx([-1.2, 0.8])
    assert np.stack([offered.U, offered.V], axis=-1).tolist() == KEYS.tolist()
    _, points, output = blend.collections
    assert points.get_offsets().tolist() == VALUES.tolist()
    assert output.get_offsets().tolist() == [pytest.approx(explorer.output.tolist())]
    assert np.argsort(points.get_sizes()).tolist() == explorer.weights.argsort().tolist()
    for name, ax in zip(("scores", "weights"), barred, strict=True):
        numbers = [float(text.get_text().replace("−", "-")) for text in ax.texts]
        assert numbers == pytest.approx(getattr(explorer, name).tolist(), abs=0.006)


def test_the_question_of_chapter_01_has_the_answer_it_gives(explorer):
    answer, start = answer_of_chapter(AttentionExplorer), explorer.sentence.value
    assert KEYS[3].tolist() == [explorer.controls[axis].value for axis in "xy"]
    assert f"weight {said(explorer, 'weight,'):.2f}" in answer
    turn(explorer, divide=False)
    widths = explorer.controls["d_k"].options
    gone = [d_k for d_k in widths if "saturated" in turn(explorer, d_k=d_k)]
    assert gone == [d_k for d_k in widths if d_k >= gone[0]] and f"From {gone[0]} on" in answer
    for d_k in (2, gone[0], 64):  # what the chapter's cell prints of the same vectors
        turn(explorer, d_k=d_k)
        gradient = said(explorer, "Gradient")
        assert f"d_k {d_k:2}, temperature 1:" in answer and f"gradient {gradient:.0e}" in answer
    temperatures = [hot for _, hot in explorer.controls["temperature"].options]
    (hot,) = (t for t in temperatures if turn(explorer, temperature=t) == start)
    assert f"The temperature {hot:g} brings the weight" in answer
