"""One query meets four keys in the plane: what makes softmax choose, and when it is stuck (§3.2.1).

The keys and values are those of the picture that opens chapter 01.
"""

import math

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Polygon
from torch import Tensor

from course_lib.viz.explorer_base import LOOK, Explorer, make_axes
from course_lib.viz.plots import COLOURS, bars

WORDS = ["three", "hundred", "forty", "five"]
KEYS = torch.tensor([[1.0, -1.0], [-1.0, 0.5], [0.5, 1.0], [2.0, 1.0]]).double()
VALUES = torch.tensor([[3.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [1.0, 3.0]]).double()
RIM = VALUES[[0, 2, 3]]  # the value of “hundred” lies on an edge of this triangle
INK = "#222222"
REACH = 3.4  # of the plane
SATURATED = 0.001  # a gradient below this is called gone
LIMITS = [2.5 * 4**k for k in range(7)]  # of the axis of scores
# left, bottom, width, height, in inches
MEETING, BLEND = (0.45, 2.31, 2.56, 2.56), (3.65, 2.31, 2.56, 2.56)
SCORES, WEIGHTS = (0.83, 0.31, 2.3, 1.35), (4.03, 0.31, 2.3, 1.35)
# where words stand beside their points
KEY_PLACES = [(0.15, -0.45), (-0.3, 0.35), (-0.4, 0.3), (0.15, 0.2)]
VALUE_PLACES = [(-0.3, -0.65), (-0.5, 0.4), (-0.6, -0.65), (0.5, -0.1)]


def plane_scores(query: Tensor, keys: Tensor, d_k: int, divide: bool) -> Tensor:
    """Score the keys as vectors of width d_k would be scored, on average.

    A score of vectors with independent numbers of variance 1 is typically as large as √d_k. Two
    numbers are seen here; the score of d_k numbers is theirs times √(d_k / 2).

    Args:
        query: Shape ``(2,)``.
        keys: Shape ``(S, 2)``.
        d_k: Width of the vectors that the two numbers stand for.
        divide: Whether to divide by √d_k, as the paper does.

    Returns:
        Shape ``(S,)``; for ``d_k=2`` what attention computes.

    Example:
        >>> plane_scores(torch.tensor([2.0, 1.0]), torch.tensor([[2.0, 1.0]]), 2, divide=False)
        tensor([5.])
    """
    return keys @ query / math.sqrt(2) * (1 if divide else math.sqrt(d_k))


def slope(weights: Tensor) -> float:
    """Measure how strongly the largest weight answers a change of the scores.

    The length of its gradient, as in chapter 01; where two weights are the largest, of one of them.

    Args:
        weights: A softmax, shape ``(S,)``.

    Example:
        >>> slope(torch.tensor([0.0, 1.0, 0.0]))
        0.0
    """
    best = weights.argmax()
    others = weights.clone()  # (S,)
    others[best] = 0
    # 1 - weights[best], written as the sum of the others: it does not round to 0
    return float(weights[best] * torch.hypot(others.sum(), others.norm()))


def draw_meeting(ax: Axes, query: Tensor) -> None:
    """Draw a query, shape ``(2,)``, and the keys it meets, as arrows."""
    how = dict(angles="xy", scale_units="xy", scale=1, minlength=0)
    head = dict(headwidth=2.2, headlength=2.2, headaxislength=2.2)
    ax.quiver(0, 0, *query.tolist(), color=COLOURS["query"], width=0.035, **head, **how)
    rim = dict(edgecolor="white", linewidth=0.6)  # seen on the query without colours, too
    start = [0] * len(KEYS)
    ax.quiver(start, start, *KEYS.T.tolist(), color=COLOURS["key"], width=0.017, **rim, **how)
    finish_plane(ax, "The query (thick) and the keys", KEYS, KEY_PLACES)


def draw_blend(ax: Axes, weights: Tensor, output: Tensor) -> None:
    """Draw values as points, as large as their weights ``(S,)``, and the output ``(2,)``."""
    green = COLOURS["value"]
    ax.add_artist(Polygon(RIM.numpy(), facecolor=green, alpha=0.15, linewidth=0))
    ways = [torch.stack([value, output]).numpy() for value in VALUES]
    ax.add_artist(LineCollection(ways, colors=green, linewidths=8 * weights.numpy(), alpha=0.5))
    sizes = (25 + 300 * weights).numpy()
    ax.scatter(VALUES[:, 0], VALUES[:, 1], s=sizes, color=green, zorder=2)
    ax.scatter(output[0], output[1], s=130, marker="X", color=INK, edgecolor="white", zorder=3)
    finish_plane(ax, "The output (×) blends the values", VALUES, VALUE_PLACES)


def finish_plane(ax: Axes, title: str, points: Tensor, places: list) -> None:
    """Write the words beside their points, and draw the grid of the plane."""
    ax.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), title=title, axisbelow=True)
    ax.set(xticks=[-3, 0, 3], yticks=[-3, 0, 3])
    ax.grid(True, color="#DDDDDD", linewidth=0.8)
    ax.tick_params(length=0)
    for word, (x, y), (right, up) in zip(WORDS, points.tolist(), places, strict=True):
        side = "left" if right > 0 else "right"
        ax.text(x + right, y + up, word, ha=side, va="center", fontsize=10)


def draw_bars(ax: Axes, title: str, heights: Tensor, ylabel: str, low: float, high: float) -> None:
    """Draw a bar for each key, of heights ``(S,)`` between two limits, with its number."""
    bars(WORDS, heights, ylabel=ylabel, colour=INK, ax=ax)
    numbers = [f"{height:.{2 if abs(height) < 10 else 0}f}" for height in heights.tolist()]
    labels = [number.replace("-", "−") for number in numbers]
    ax.bar_label(ax.containers[0], labels, padding=3, fontsize=10)
    ax.set(xlim=(-0.6, len(WORDS) - 0.4), ylim=(1.3 * low, 1.3 * high), title=title)
    ax.set_yticks(sorted({low, 0, high}))
    ax.yaxis.set_major_formatter("{x:g}")


def describe(scores: Tensor, weights: Tensor, output: Tensor) -> str:
    """Say what wins, how sharply, and whether softmax still answers."""
    low, high = scores.aminmax()
    top = float(weights.max())
    change = slope(weights)
    best = [word for word, share in zip(WORDS, weights.tolist(), strict=True) if share > top - 1e-9]
    named = "every key" if len(best) == len(WORDS) else " and ".join(f"“{word}”" for word in best)
    entropy = float(torch.special.entr(weights).sum())
    digits = np.format_float_positional(change, 2, unique=False, fractional=False)
    answer = "saturated, nothing moves it" if change < SATURATED else "it still answers"
    return (
        f"Scores from {low:.2f} to {high:.2f}. The largest weight, {top:.2f}, goes to {named}. "
        f"Entropy {entropy:.2f} of at most {math.log(len(WORDS)):.2f} nats. "
        f"Gradient {digits if change >= 1e-8 else 'below 0.00000001'}: {answer}. "
        f"Output [{output[0]:z.2f}, {output[1]:z.2f}]."
    )


class AttentionExplorer(Explorer):
    """Slide a query over four keys, and see scores, weights and the blend of the values follow.

    Attributes:
        scores: What softmax sees, after scale and temperature. Shape ``(S,)``.
        weights: Shape ``(S,)``.
        output: The blended value. Shape ``(2,)``.
    """

    def __init__(self) -> None:
        plane = LOOK | dict(min=-3.0, max=3.0, step=0.1, readout_format=".1f")
        choose = widgets.SelectionSlider
        widths = [2**k for k in range(10)]
        hot = [(f"{2.0**k:g}", 2.0**k) for k in range(-3, 5)]
        controls = {
            "x": widgets.FloatSlider(description="query, across", value=2.0, **plane),
            "y": widgets.FloatSlider(description="query, up", value=1.0, **plane),
            "d_k": choose(description="d_k", options=widths, value=2, **LOOK),
            "divide": widgets.Checkbox(description="divide by √d_k", value=True, **LOOK),
            "temperature": choose(description="temperature", options=hot, value=1.0, **LOOK),
        }
        super().__init__(controls, make_axes((6.4, 5.2), MEETING, BLEND, SCORES, WEIGHTS))

    def redraw(self) -> tuple[str, str]:
        """Draw the query, the scores, the weights and the blend."""
        shown = self.values()
        query = torch.tensor([shown["x"], shown["y"]], dtype=torch.float64)
        raw = plane_scores(query, KEYS, shown["d_k"], shown["divide"])
        self.scores = raw / shown["temperature"]  # (S,)
        self.weights = self.scores.softmax(dim=-1)  # (S,)
        self.output = self.weights @ VALUES  # (2,)
        meeting, blend, scores, weights = self.axes
        limit = next(limit for limit in LIMITS if limit >= self.scores.abs().max())
        draw_meeting(meeting, query)
        draw_blend(blend, self.weights, self.output)
        draw_bars(scores, "Scores, as softmax sees them", self.scores, "score", -limit, limit)
        draw_bars(weights, "Weights, adding up to 1", self.weights, "weight", 0, 1)
        sentence = describe(self.scores, self.weights, self.output)
        numbers = [
            f"{word}: score {score:.2f}, weight {weight:.2f}"
            for word, score, weight in zip(WORDS, self.scores, self.weights, strict=True)
        ]
        place = f"{shown['x']:.1f}, {shown['y']:.1f}"
        return sentence, f"A query at [{place}] and four keys. {'; '.join(numbers)}. {sentence}"
