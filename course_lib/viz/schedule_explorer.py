"""An explorer of the learning-rate schedule and of label smoothing (paper, §5.3 and §5.4)."""

import math

import ipywidgets as widgets
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from course_lib.training import warmup_inverse_sqrt
from course_lib.viz.explorer_base import LOOK, Explorer, make_axes
from course_lib.viz.plots import COLOURS, bars

WARM_UPS = [10, 20, 50, 100, 200, 400, 800, 1600, 4000, 8000]
WIDTHS = [32, 64, 128, 256, 512, 1024]
SHOWN = [100, 200, 450, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000]
PAPER = dict(d_model=512, warmup_steps=4000)  # table 3, row (base)
TOKENS = ["pad", "1", "2", "3", "4", "5", "6"]  # the vocabulary of the chapter's example
PAD = 0
RIGHT = 3
POINTS = 300  # of a curve
TOPS = [0.5, 2.0, 8.0, 20.0, 100.0]  # possible ends of the axis of the learning rate
SCHEDULE, TARGET = (0.9, 0.61, 2.82, 2.38), (4.51, 0.61, 1.79, 2.38)  # in inches


def smoothed_target(smoothing: float) -> Tensor:
    """Spread a probability over all tokens but padding (§5.4). Shape ``(V,)``."""
    target = torch.full((len(TOKENS),), smoothing / (len(TOKENS) - 1), dtype=torch.float64)
    target[PAD] = 0.0
    target[RIGHT] += 1 - smoothing
    return target  # (V,)


def draw_schedule(ax: Axes, warmup_steps: int, d_model: int, shown: int) -> None:
    """Draw the learning rate over the steps with its peak, and the paper's curve."""
    spaced = {round(1 + (shown - 1) * n / POINTS) for n in range(POINTS + 1)}
    steps = sorted(spaced | {min(warmup_steps, shown)})
    rates = [1000 * warmup_inverse_sqrt(step, d_model, warmup_steps) for step in steps]
    paper = [1000 * warmup_inverse_sqrt(step, **PAPER) for step in steps]
    top = next(top for top in TOPS if top >= 1.45 * max(*rates, *paper))  # few steps: peaks move
    ax.plot(steps, paper, "--", color="#777777", lw=1.5, label="paper's base model")
    ax.plot(steps, rates, color=COLOURS["query"], label="yours")
    if warmup_steps <= shown:
        peak = rates[steps.index(warmup_steps)]
        ax.plot(warmup_steps, peak, "o", color=COLOURS["key"], ms=8, label="its peak")
    ax.set(xlim=(0, shown), ylim=(0, top), xlabel="step", ylabel="learning rate · 1,000")
    ax.set_title("Up in a line, down as 1/√step")
    for axis, number in ((ax.xaxis, "{x:,.0f}"), (ax.yaxis, "{x:.4g}")):
        axis.set_major_locator(MaxNLocator(4))
        axis.set_major_formatter(number)
    ax.legend(loc="upper right", labelspacing=0.2, borderpad=0.1)


def describe_schedule(warmup_steps: int, d_model: int, shown: int) -> str:
    """Describe the peak of the rate and its value at the end in a sentence."""
    peak = warmup_inverse_sqrt(warmup_steps, d_model, warmup_steps)
    last = warmup_inverse_sqrt(shown, d_model, warmup_steps)
    if shown < warmup_steps:
        return (
            f"The rate is still rising at step {shown:,} ({last:.5f}); "
            f"its peak, {peak:.5f}, comes at step {warmup_steps:,}."
        )
    return (
        f"The rate peaks at step {warmup_steps:,} with {peak:.5f} = 1/√({d_model} · "
        f"{warmup_steps}); at step {shown:,} it is {last:.5f}."
    )


def describe_target(smoothing: float, target: Tensor) -> str:
    """Describe the probability of every token and the lowest possible loss in a sentence."""
    others = float(target[RIGHT + 1])
    entropy = float(torch.special.entr(target).sum())
    return (
        f"With ε = {smoothing:.2f}, the right token gets {target[RIGHT]:.3f}, each of the "
        f"{len(target) - 2} others {others:.3f}, and pad 0. The lowest possible loss is "
        f"{entropy:.2f} nats; a uniform prediction has ln {len(target) - 1} = "
        f"{math.log(len(target) - 1):.2f}."
    )


class ScheduleExplorer(Explorer):
    """Show the learning rate over the steps, and the target of label smoothing."""

    def __init__(self) -> None:
        choose = widgets.SelectionSlider
        epsilon = dict(min=0.0, max=1.0, step=0.05, description="smoothing ε")
        controls = {
            "warmup_steps": choose(options=WARM_UPS, value=50, description="warm-up steps", **LOOK),
            "d_model": choose(options=WIDTHS, value=128, description="width d_model", **LOOK),
            "shown": choose(options=SHOWN, value=450, description="steps shown", **LOOK),
            "smoothing": widgets.FloatSlider(0.1, **epsilon, **LOOK),
        }
        super().__init__(controls, make_axes((6.4, 3.4), SCHEDULE, TARGET))

    def redraw(self) -> tuple[str, str]:
        """Draw the curve and the bars, and describe both."""
        v = self.values()
        smoothing = v.pop("smoothing")
        target = smoothed_target(smoothing)
        draw_schedule(self.axes[0], **v)
        ax = bars(TOKENS, target, ylabel="target probability", ax=self.axes[1])
        ax.set(ylim=(0, 1), xlabel="token", title=f"The target for token {TOKENS[RIGHT]}")
        schedule = describe_schedule(**v)
        smoothed = describe_target(smoothing, target)
        alt = f"Left, the learning rate over the steps. {schedule} "
        alt += f"Right, seven bars, one per token. {smoothed}"
        return f"{schedule}\n{smoothed}", alt
