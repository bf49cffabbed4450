"""The schedule explorer: the peak is where the formula says, the floor is what a loss can reach."""

import math
import re

import matplotlib.pyplot as plt
import pytest
import torch
from figure_asserts import assert_readable
from matplotlib.colors import same_color
from torch.testing import assert_close

from course_lib.training import label_smoothed_cross_entropy
from course_lib.viz.plots import COLOURS
from course_lib.viz.schedule_explorer import (
    PAD,
    RIGHT,
    SHOWN,
    TOKENS,
    WARM_UPS,
    WIDTHS,
    ScheduleExplorer,
    describe_schedule,
    describe_target,
    entropy,
    smoothed_target,
)

EPSILONS = [n / 20 for n in range(21)]


@pytest.fixture
def explorer():
    """Return a new explorer, as the chapter shows it."""
    return ScheduleExplorer()


def turn(explorer, **settings) -> str:
    """Set controls and return the sentence."""
    for name, value in settings.items():
        explorer.controls[name].value = value
    return explorer.words.value


def target_of(smoothing: float) -> torch.Tensor:
    """Return the target that the explorer draws."""
    return smoothed_target(smoothing, len(TOKENS), RIGHT, PAD)


@pytest.mark.parametrize("smoothing", EPSILONS)
def test_the_target_is_the_one_that_the_loss_asks_for(smoothing, generator):
    logits = torch.randn(1, len(TOKENS), generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    loss = label_smoothed_cross_entropy(
        logits, torch.tensor([RIGHT]), pad_id=PAD, smoothing=smoothing
    )
    (slope,) = torch.autograd.grad(loss, logits)  # softmax minus target
    assert_close(logits.detach().softmax(-1)[0] - slope[0], target_of(smoothing))


@pytest.mark.parametrize("smoothing", EPSILONS[1:])
def test_the_entropy_is_the_lowest_possible_loss(smoothing, generator):
    target = target_of(smoothing)
    asked = dict(pad_id=PAD, smoothing=smoothing)
    perfect = target.clamp(min=1e-30).log()
    floor = label_smoothed_cross_entropy(perfect[None], torch.tensor([RIGHT]), **asked)
    assert entropy(target) == pytest.approx(float(floor), abs=1e-9)
    for _ in range(5):
        other = perfect + 0.1 * torch.randn(len(TOKENS), generator=generator).double()
        assert label_smoothed_cross_entropy(other[None], torch.tensor([RIGHT]), **asked) > floor


def test_certainty_has_no_entropy_and_no_sign():
    assert str(entropy(target_of(0.0))) == "0.0"
    assert entropy(target_of(1.0)) == pytest.approx(math.log(len(TOKENS) - 1))


def test_the_sentence_answers_the_chapter(explorer):
    sentence = turn(explorer)
    assert "peaks at step 50 with 0.01250" in sentence  # 1/√(128 · 50) = 1/80
    assert "at step 450 it is 0.00417" in sentence  # 1/√(128 · 450) = 1/240
    q = [0.9 + 0.1 / 6] + 5 * [0.1 / 6]
    assert f"lowest possible loss is {-sum(p * math.log(p) for p in q):.2f} nats" in sentence
    assert "gets 0.917, each of the 5 others 0.017, pad 0" in sentence
    assert "ln 6 = 1.79" in sentence


def test_the_question_of_chapter_10_has_the_answer_it_gives(explorer):
    def rates():
        return explorer.axes[0].lines[1].get_xydata()

    assert "peaks at step 50 with 0.01250" in turn(explorer)  # 1/√(128 · 50)
    before = dict(rates())
    assert "peaks at step 100 with 0.00884" in turn(explorer, warmup_steps=100)  # by √2 lower
    later = dict(rates())
    assert all(later[n] == pytest.approx(before[n]) for n in later if n >= 100 and n in before)
    assert all(later[n] < before[n] for n in later if n < 100 and n in before)
    assert "peaks at step 100 with 0.00625" in turn(explorer, d_model=256)
    for step, rate in rates():
        assert rate == pytest.approx(later[step] / math.sqrt(2))


def test_the_lowest_loss_of_chapter_10_climbs_from_none_to_that_of_who_knows_nothing(
    explorer, monkeypatch
):
    monkeypatch.setattr(explorer, "_painted", bytes)  # its words alone are read
    floors = []
    for smoothing in EPSILONS:
        sentence = turn(explorer, smoothing=smoothing)
        floors.append(float(re.search(r"loss is (\d\.\d+) nats", sentence)[1]))
    assert floors == sorted(floors) and (floors[0], floors[-1]) == (0.0, 1.79)


def test_a_peak_that_comes_later_is_announced(explorer):
    sentence = turn(explorer, warmup_steps=4000, d_model=512)
    assert "still rising at step 450" in sentence and "comes at step 4,000" in sentence
    assert len(explorer.axes[0].lines) == 2  # no dot
    assert "peaks at step 100 with 0.00442" in turn(explorer, shown=100, warmup_steps=100)
    assert len(explorer.axes[0].lines) == 3


@pytest.mark.parametrize("warmup_steps", WARM_UPS)
@pytest.mark.parametrize("d_model", WIDTHS)
def test_the_peak_said_is_the_highest_rate_there_is(warmup_steps, d_model):
    said = describe_schedule(warmup_steps, d_model, SHOWN[-1])
    assert float(re.search(r"with (\d\.\d+)", said)[1]) == pytest.approx(
        1 / math.sqrt(d_model * warmup_steps), abs=6e-6
    )
    assert f"step {warmup_steps:,} with" in said
    assert f"it is {1 / math.sqrt(d_model * SHOWN[-1]):.5f}" in said


def test_two_curves_are_told_apart_and_neither_is_cut(explorer):
    turn(explorer, warmup_steps=10, d_model=64, shown=20_000)
    ax = explorer.axes[0]
    paper, yours, _ = ax.lines
    assert paper.get_linestyle() == "--" and yours.get_linestyle() == "-"
    assert same_color(yours.get_color(), COLOURS["query"])
    rates = dict(paper.get_xydata())
    assert max(rates, key=rates.get) == pytest.approx(4000, abs=70)  # 300 points in 20,000 steps
    assert rates[20_000] == pytest.approx(1000 / math.sqrt(512 * 20_000))
    assert ax.get_xlim() == (0, 20_000)
    assert ax.get_ylim()[1] > max(*paper.get_ydata(), *yours.get_ydata())
    turn(explorer, warmup_steps=8000, shown=100)
    assert ax.get_xlim() == (0, 100)
    assert [ax.xaxis.get_major_formatter()(n) for n in (0, 20_000)] == ["0", "20,000"]


@pytest.mark.parametrize("warmup_steps", WARM_UPS[:4])
def test_the_curve_rises_to_its_dot_and_falls(explorer, warmup_steps):
    turn(explorer, warmup_steps=warmup_steps)
    _, curve, dot = explorer.axes[0].lines
    rates = list(curve.get_ydata())
    top = rates.index(max(rates))
    assert curve.get_xdata()[top] == dot.get_xdata()[0] == warmup_steps
    assert rates[:top] == sorted(rates[:top]) and rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[top] == dot.get_ydata()[0] == pytest.approx(1000 / math.sqrt(128 * warmup_steps))


def test_the_bars_are_the_target_and_pad_has_none(explorer):
    turn(explorer, smoothing=0.6)
    heights = [bar.get_height() for bar in explorer.axes[1].patches]
    assert heights == pytest.approx([0, 0.1, 0.1, 0.5, 0.1, 0.1, 0.1])
    assert [word.get_text() for word in explorer.axes[1].get_xticklabels()] == TOKENS
    assert explorer.axes[1].get_title("left") == "The target for token 3"
    assert "others 0.100" in describe_target(0.6, target_of(0.6))


ENDS = [
    (w, d, s, e)
    for w in (WARM_UPS[0], WARM_UPS[-1])
    for d in (WIDTHS[0], WIDTHS[-1])
    for s in (SHOWN[0], SHOWN[-1])
    for e in (0.0 if s == SHOWN[0] else 1.0,)
]


@pytest.mark.parametrize("ends", ENDS)
def test_every_end_of_every_slider_is_drawn_and_readable(explorer, ends):
    turn(
        explorer, **dict(zip(("warmup_steps", "d_model", "shown", "smoothing"), ends, strict=True))
    )
    assert 'role="status"' in explorer.words.value
    assert_readable(explorer.fig)


@pytest.mark.parametrize(
    ("name", "value"), [("warmup_steps", 10), ("d_model", 1024), ("shown", 100), ("smoothing", 0.5)]
)
def test_every_control_changes_picture_and_words(explorer, name, value):
    before, figures = (explorer.picture.value, explorer.alt), plt.get_fignums()
    turn(explorer, **{name: value})
    assert explorer.picture.value != before[0] and explorer.alt != before[1]
    assert bytes(explorer.picture.value[:4]) == b"\x89PNG"
    assert plt.get_fignums() == figures
    assert explorer.controls[name].description


def test_bars_do_not_pile_up(explorer):
    for smoothing in (0.0, 0.3, 0.6):
        turn(explorer, smoothing=smoothing)
    assert [len(ax.containers) for ax in explorer.axes] == [0, 1]
