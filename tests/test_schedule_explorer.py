"""The schedule explorer: the peak and the lowest possible loss are those of the formulas."""

import math
import re

import pytest
import torch
from figure_asserts import answer_of_chapter, fixture_of, turn
from torch.testing import assert_close

from course_lib.training import label_smoothed_cross_entropy, warmup_inverse_sqrt
from course_lib.viz.schedule_explorer import (
    PAD,
    PAPER,
    RIGHT,
    TOKENS,
    WARM_UPS,
    WIDTHS,
    ScheduleExplorer,
    describe_schedule,
    describe_target,
    smoothed_target,
)

EPSILONS = [n / 4 for n in range(5)]
explorer = fixture_of(ScheduleExplorer)


@pytest.mark.parametrize("smoothing", EPSILONS)
def test_the_target_is_the_one_that_the_loss_asks_for(smoothing, generator):
    logits = torch.randn(1, len(TOKENS), generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    loss = label_smoothed_cross_entropy(
        logits, torch.tensor([RIGHT]), pad_id=PAD, smoothing=smoothing
    )
    (slope,) = torch.autograd.grad(loss, logits)  # softmax minus target
    assert_close(logits.detach().softmax(-1)[0] - slope[0], smoothed_target(smoothing))


@pytest.mark.parametrize("smoothing", EPSILONS)
def test_the_entropy_is_the_lowest_possible_loss(smoothing, generator):
    target = smoothed_target(smoothing)
    asked = dict(pad_id=PAD, smoothing=smoothing)
    perfect = target.clamp(min=1e-30).log()
    lowest = label_smoothed_cross_entropy(perfect[None], torch.tensor([RIGHT]), **asked)
    assert f"lowest possible loss is {abs(lowest):.2f} nats" in describe_target(smoothing, target)
    for _ in range(5):
        other = perfect + 0.1 * torch.randn(len(TOKENS), generator=generator).double()
        assert label_smoothed_cross_entropy(other[None], torch.tensor([RIGHT]), **asked) >= lowest


def test_the_sentence_says_what_every_token_gets(explorer):
    right, others = 0.4 + 0.6 / 6, 0.6 / 6
    sentence = turn(explorer, smoothing=0.6)
    assert f"gets {right:.3f}, each of the 5 others {others:.3f}, and pad 0" in sentence
    heights = [bar.get_height() for bar in explorer.axes[1].patches]
    assert heights == pytest.approx([0, others, others, right, others, others, others])


@pytest.mark.parametrize("warmup_steps", WARM_UPS)
@pytest.mark.parametrize("d_model", WIDTHS[::5])
def test_the_peak_said_is_the_highest_rate_there_is(warmup_steps, d_model):
    said = describe_schedule(warmup_steps, d_model, 100_000)
    assert f"step {warmup_steps:,} with {1 / math.sqrt(d_model * warmup_steps):.5f}" in said
    assert f"it is {1 / math.sqrt(d_model * 100_000):.5f}" in said
    early = describe_schedule(warmup_steps, d_model, warmup_steps - 1)
    assert "still rising" in early and f"comes at step {warmup_steps:,}" in early


def test_the_curves_are_the_schedules_and_a_dot_marks_the_peak_where_it_is_seen(explorer):
    turn(explorer, warmup_steps=20, d_model=64, shown=2000)
    paper, yours, dot = explorer.axes[0].lines
    for line, config in ((paper, PAPER), (yours, dict(d_model=64, warmup_steps=20))):
        expected = [1000 * warmup_inverse_sqrt(int(step), **config) for step in line.get_xdata()]
        assert line.get_ydata() == pytest.approx(expected)
    assert dot.get_xdata() == [20] and dot.get_ydata() == [max(yours.get_ydata())]
    assert paper.get_linestyle() != yours.get_linestyle()
    assert explorer.axes[0].get_xlim() == (0, 2000)
    assert explorer.axes[0].get_ylim()[1] > max(*paper.get_ydata(), *yours.get_ydata())
    turn(explorer, warmup_steps=4000)
    assert len(explorer.axes[0].lines) == 2, "no dot"


def test_the_question_of_chapter_11_has_the_answer_it_gives(explorer):
    answer, rates = answer_of_chapter(ScheduleExplorer), []
    for settings in ({}, dict(warmup_steps=100), dict(d_model=256)):
        peak = re.search(r"peaks at step (\d+) with (\d\.\d+)", turn(explorer, **settings))
        assert peak[1] in answer and f"{float(peak[2]):.4f}" in answer
        rates.append(dict(explorer.axes[0].lines[1].get_xydata()))
    before, later, wider = rates
    common = before.keys() & later.keys()
    assert all(later[n] == pytest.approx(before[n]) for n in common if n >= 100)
    assert all(later[n] < before[n] for n in common if n < 100)
    for step, rate in wider.items():
        assert rate == pytest.approx(later[step] / math.sqrt(2))
