"""An explorer of one query and four keys in the plane (paper, §3.2.1).

The keys and values are those of the picture that opens chapter 01.
"""

import math
from functools import partial

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Polygon
from torch import Tensor

from course_lib.viz.explorer_base import LOOK, Explorer, make_axes
from course_lib.viz.plots import COLOURS

WORDS = ["three", "hundred", "forty", "five"]
KEYS = torch.tensor([[1.0, -1.0], [-1.0, 0.5], [0.5, 1.0], [2.0, 1.0]]).double()
VALUES = torch.tensor([[3.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [1.0, 3.0]]).double()
HULL = VALUES[[0, 2, 3]]  # the value of “hundred” is on an edge of this triangle
INK = "#222222"
PLANE_LIMIT = 3.4  # of both axes
SATURATED = 0.001  # a smaller gradient counts as saturated
SCORE_LIMITS = [2.5 * 4**k for k in range(7)]  # of the axis of the scores
# left, bottom, width, height, in inches
QUERY_AND_KEYS, OUTPUT = (0.45, 2.31, 2.56, 2.56), (3.65, 2.31, 2.56, 2.56)
SCORES, WEIGHTS = (0.83, 0.31, 2.3, 1.35), (4.03, 0.31, 2.3, 1.35)
# offsets of the words from their points
KEY_OFFSETS = [(0.15, -0.45), (-0.3, 0.35), (-0.4, 0.3), (0.15, 0.2)]
VALUE_OFFSETS = [(-0.3, -0.65), (-0.5, 0.4), (-0.6, -0.65), (0.5, -0.1)]


def plane_scores(query: Tensor, keys: Tensor, d_k: int, divide: bool) -> Tensor:
    """Compute scores of the size that vectors of width d_k have on average.

    If all numbers are independent with variance 1, a score has the standard deviation √d_k. The
    vectors here have two numbers, so their scores are multiplied by √(d_k / 2).

    Args:
        query: Shape ``(2,)``.
        keys: Shape ``(S, 2)``.
        d_k: Width of the vectors that we imitate.
        divide: Whether to divide by √d_k, as the paper does.

    Returns:
        Shape ``(S,)``. With ``d_k=2``, these are the scores of attention.

    Example:
        >>> plane_scores(torch.tensor([2.0, 1.0]), torch.tensor([[2.0, 1.0]]), 2, divide=False)
        tensor([5.])
    """
    return keys @ query / math.sqrt(2) * (1 if divide else math.sqrt(d_k))


def gradient_norm(weights: Tensor) -> float:
    """Compute the norm of the gradient of the largest weight with respect to the scores.

    If two weights are the largest, the gradient is that of one of them.

    Args:
        weights: A softmax, shape ``(S,)``.

    Example:
        >>> gradient_norm(torch.tensor([0.0, 1.0, 0.0]))
        0.0
    """
    best = weights.argmax()
    others = weights.clone()  # (S,)
    others[best] = 0
    # others.sum() is 1 - weights[best], but does not round to 0
    return float(weights[best] * torch.hypot(others.sum(), others.norm()))


def draw_query_and_keys(ax: Axes, query: Tensor) -> None:
    """Draw a query, shape ``(2,)``, and the keys as arrows from the origin."""
    arrows = partial(ax.quiver, angles="xy", scale_units="xy", scale=1, minlength=0)
    thick = partial(arrows, width=0.035, headwidth=2.2, headlength=2.2, headaxislength=2.2)
    thick(0, 0, *query.tolist(), color=COLOURS["query"])
    outlined = partial(arrows, edgecolor="white", linewidth=0.6)  # visible on the query
    start = [0] * len(KEYS)
    outlined(start, start, *KEYS.T.tolist(), color=COLOURS["key"], width=0.017)
    finish_plane(ax, "The query (thick) and the keys", KEYS, KEY_OFFSETS)


def draw_output(ax: Axes, weights: Tensor, output: Tensor) -> None:
    """Draw the values with sizes that show their weights ``(S,)``, and the output ``(2,)``."""
    green = COLOURS["value"]
    ax.add_artist(Polygon(HULL.numpy(), facecolor=green, alpha=0.15, linewidth=0))
    lines = [torch.stack([value, output]).numpy() for value in VALUES]
    ax.add_artist(LineCollection(lines, colors=green, linewidths=8 * weights.numpy(), alpha=0.5))
    sizes = (25 + 300 * weights).numpy()
    ax.scatter(VALUES[:, 0], VALUES[:, 1], s=sizes, color=green, zorder=2)
    ax.scatter(output[0], output[1], s=130, marker="X", color=INK, edgecolor="white", zorder=3)
    finish_plane(ax, "The output (×) averages values", VALUES, VALUE_OFFSETS)


def finish_plane(ax: Axes, title: str, points: Tensor, offsets: list[tuple[float, float]]) -> None:
    """Write the words next to their points, and draw a grid."""
    limits = (-PLANE_LIMIT, PLANE_LIMIT)
    ax.set(xlim=limits, ylim=limits, title=title, axisbelow=True)
    ax.set(xticks=[-3, 0, 3], yticks=[-3, 0, 3])
    ax.grid(True, color="#DDDDDD", linewidth=0.8)
    ax.tick_params(length=0)
    for word, (x, y), (right, up) in zip(WORDS, points.tolist(), offsets, strict=True):
        side = "left" if right > 0 else "right"
        ax.text(x + right, y + up, word, ha=side, va="center", fontsize=10)


def draw_bars(ax: Axes, title: str, heights: Tensor, ylabel: str, low: float, high: float) -> None:
    """Draw a labeled bar for each key, with heights ``(S,)`` between two limits."""
    places = range(len(WORDS))
    container = ax.bar(places, heights.numpy(), color=INK)
    numbers = [f"{height:.{2 if abs(height) < 10 else 0}f}" for height in heights.tolist()]
    labels = [number.replace("-", "−") for number in numbers]
    ax.bar_label(container, labels, padding=3, fontsize=10)
    ax.set_xticks(places, WORDS)
    ax.set(xlim=(-0.6, len(WORDS) - 0.4), ylim=(1.3 * low, 1.3 * high), title=title, ylabel=ylabel)
    ax.set_yticks(sorted({low, 0, high}))
    ax.yaxis.set_major_formatter("{x:g}")


def describe(scores: Tensor, weights: Tensor, output: Tensor) -> str:
    """Describe in words which key gets the largest weight, and whether softmax is saturated."""
    low, high = scores.aminmax()
    top = float(weights.max())
    gradient = gradient_norm(weights)
    best = [word for word, weight in zip(WORDS, weights, strict=True) if weight > top - 1e-9]
    winners = "every key" if len(best) == len(WORDS) else " and ".join(f"“{word}”" for word in best)
    entropy = float(torch.special.entr(weights).sum())
    digits = np.format_float_positional(gradient, 2, unique=False, fractional=False)
    state = "softmax is saturated" if gradient < SATURATED else "softmax can still learn"
    return (
        f"Scores from {low:.2f} to {high:.2f}. The largest weight, {top:.2f}, goes to {winners}. "
        f"Entropy {entropy:.2f} of at most {math.log(len(WORDS)):.2f} nats. "
        f"Gradient {digits if gradient >= 1e-8 else 'below 0.00000001'}: {state}. "
        f"Output [{output[0]:z.2f}, {output[1]:z.2f}]."
    )


class AttentionExplorer(Explorer):
    """Move a query among four keys, and see how scores, weights and output change.

    Attributes:
        scores: The input of softmax, after scaling and temperature. Shape ``(S,)``.
        weights: Shape ``(S,)``.
        output: The weighted average of the values. Shape ``(2,)``.
    """

    def __init__(self) -> None:
        plane = LOOK | dict(min=-3.0, max=3.0, step=0.1, readout_format=".1f")
        choose = widgets.SelectionSlider
        widths = [2**k for k in range(10)]
        powers = [(f"{2.0**k:g}", 2.0**k) for k in range(-3, 5)]
        controls = {
            "x": widgets.FloatSlider(description="query, across", value=2.0, **plane),
            "y": widgets.FloatSlider(description="query, up", value=1.0, **plane),
            "d_k": choose(description="d_k", options=widths, value=2, **LOOK),
            "divide": widgets.Checkbox(description="divide by √d_k", value=True, **LOOK),
            "temperature": choose(description="temperature", options=powers, value=1.0, **LOOK),
        }
        super().__init__(controls, make_axes((6.4, 5.2), QUERY_AND_KEYS, OUTPUT, SCORES, WEIGHTS))

    def redraw(self) -> tuple[str, str]:
        """Draw the query, the scores, the weights and the output."""
        v = self.values()
        query = torch.tensor([v["x"], v["y"]], dtype=torch.float64)
        raw = plane_scores(query, KEYS, v["d_k"], v["divide"])
        self.scores = raw / v["temperature"]  # (S,)
        self.weights = self.scores.softmax(dim=-1)  # (S,)
        self.output = self.weights @ VALUES  # (2,)
        plane_ax, output_ax, scores_ax, weights_ax = self.axes
        limit = next(limit for limit in SCORE_LIMITS if limit >= self.scores.abs().max())
        draw_query_and_keys(plane_ax, query)
        draw_output(output_ax, self.weights, self.output)
        draw_bars(scores_ax, "Scores before softmax", self.scores, "score", -limit, limit)
        draw_bars(weights_ax, "Weights, adding up to 1", self.weights, "weight", 0, 1)
        sentence = describe(self.scores, self.weights, self.output)
        numbers = [
            f"{word}: score {score:.2f}, weight {weight:.2f}"
            for word, score, weight in zip(WORDS, self.scores, self.weights, strict=True)
        ]
        alt = f"A query at [{v['x']:.1f}, {v['y']:.1f}] and four keys. {'; '.join(numbers)}. "
        return sentence, alt + sentence
