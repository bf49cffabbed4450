"""One query meets four keys in the plane: what makes softmax choose, and when it is stuck (§3.2.1).

The keys and values are those of the picture that opens chapter 01.
"""

import math

import ipywidgets as widgets
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Polygon
from torch import Tensor

from course_lib.viz.explorer_base import LABEL, WIDE, Explorer, make_figure, wipe
from course_lib.viz.plots import COLOURS, STYLE, bars

WORDS = ["three", "hundred", "forty", "five"]
KEYS = [[1.0, -1.0], [-1.0, 0.5], [0.5, 1.0], [2.0, 1.0]]
VALUES = [[3.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [1.0, 3.0]]
INK = "#222222"
REACH = 3.4
SATURATED = 0.001  # the plane ends there; a gradient below this is called gone
LIMITS = [2.5 * 4**k for k in range(7)]  # of the axis of scores, in steps of 4
TICKS = [-3, 0, 3]
TITLES = {
    "meeting": "The query (thick) and the keys",
    "blend": "The output (×) blends the values",
    "scores": "Scores, as softmax sees them",
    "weights": "Weights, adding up to 1",
}
PLACES = {  # left, bottom, width, height, in shares of the figure
    "meeting": (0.07, 0.445, 0.4, 0.492),
    "blend": (0.57, 0.445, 0.4, 0.492),
    "scores": (0.13, 0.06, 0.36, 0.26),
    "weights": (0.63, 0.06, 0.36, 0.26),
}
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
        d_k: Width of the vectors that the two numbers stand for; from 1.
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
    best = int(weights.argmax())
    others = torch.cat([weights[:best], weights[best + 1 :]])
    # 1 - weights[best], written as the sum of the others: it does not round to 0
    return float(weights[best] * (others.sum().square() + others.square().sum()).sqrt())


def draw_meeting(query: Tensor, keys: Tensor, words: list[str], ax: Axes) -> None:
    """Draw a query and the keys it meets, as arrows.

    Args:
        query: Shape ``(2,)``.
        keys: Shape ``(S, 2)``.
        words: S words.
        ax: Where to draw; it is emptied first.
    """
    wipe(ax)
    how = dict(angles="xy", scale_units="xy", scale=1, minlength=0)
    head = dict(headwidth=2.2, headlength=2.2, headaxislength=2.2)
    ax.quiver(0, 0, *query.tolist(), color=COLOURS["query"], width=0.035, **head, **how)
    start = [0] * len(keys)
    (x, y) = keys.T.tolist()
    rim = dict(edgecolor="white", linewidth=0.6)  # seen on the query without colours, too
    ax.quiver(start, start, x, y, color=COLOURS["key"], width=0.017, **rim, **how)
    write(words, keys, KEY_PLACES, ax)


def draw_blend(weights: Tensor, values: Tensor, words: list[str], ax: Axes) -> None:
    """Draw values as points, as large as their weights, and their blend.

    Args:
        weights: Shape ``(S,)``.
        values: Shape ``(S, 2)``; no one inside of the others.
        words: S words.
        ax: Where to draw; it is emptied first.
    """
    wipe(ax)
    turn = (values - values.mean(dim=0)).flip(-1).unbind(-1)
    rim = values[torch.atan2(*turn).argsort()]  # (S, 2), once around
    ax.add_artist(Polygon(rim.numpy(), facecolor=COLOURS["value"], alpha=0.15, linewidth=0))
    output = (weights @ values).tolist()
    shares = weights.tolist()
    ways = [(value, output) for value in values.tolist()]
    widths = [8 * share for share in shares]
    ax.add_artist(LineCollection(ways, colors=COLOURS["value"], linewidths=widths, alpha=0.5))
    sizes = [25 + 300 * share for share in shares]
    x, y = values.T.tolist()
    ax.scatter(x, y, s=sizes, color=COLOURS["value"], zorder=2)
    ax.scatter(output[0], output[1], s=130, marker="X", color=INK, edgecolor="white", zorder=3)
    write(words, values, VALUE_PLACES, ax)


def write(words: list[str], points: Tensor, places: list, ax: Axes) -> None:
    """Write words beside their points, and fix the limits of the plane."""
    ax.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH))
    for word, (x, y), (right, up) in zip(words, points.tolist(), places, strict=True):
        side = "left" if right > 0 else "right"
        ax.text(x + right, y + up, word, ha=side, va="center", fontsize=10)


def draw_bars(heights: Tensor, words: list[str], ylabel: str, limit: float, ax: Axes) -> None:
    """Draw a bar for each key, with its number.

    Args:
        heights: Shape ``(S,)``.
        words: S words.
        ylabel: What the heights are.
        limit: Where the axis ends; below 0 too, where a height is negative.
        ax: Where to draw; it is emptied first.
    """
    wipe(ax)
    bars(words, heights, ylabel=ylabel, colour=INK, ax=ax)
    low = -limit if limit > 1 else 0
    ax.set(xlim=(-0.6, len(words) - 0.4), ylim=(1.3 * low, 1.3 * limit))
    ticks = sorted({low, 0, limit})
    ax.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    for x, height in enumerate(heights.tolist()):
        number = f"{height:.{2 if abs(height) < 10 else 0}f}".replace("-", "−")
        above = height >= 0
        y = height + 0.04 * limit * (1 if above else -1)
        ax.text(x, y, number, ha="center", va="bottom" if above else "top", fontsize=10)


def plain(number: float) -> str:
    """Write a number from 0 to 1 with two digits that count, eight in all.

    Example:
        >>> plain(0.1634), plain(0.0000000612), plain(2e-21)
        ('0.16', '0.00000006', 'below 0.00000001')
    """
    if number < 1e-8:
        return "below 0.00000001" if number else "0.0"
    return f"{number:.{min(8, 1 + math.ceil(-math.log10(number)))}f}"


def describe(weights: Tensor, output: list[float], words: list[str]) -> str:
    """Say what wins, how sharply, and whether softmax still answers.

    Args:
        weights: Shape ``(S,)``.
        output: The blended value.
        words: S words.
    """
    top = float(weights.max())
    change = slope(weights)
    best = [word for word, share in zip(words, weights.tolist(), strict=True) if share > top - 1e-9]
    named = "every key" if len(best) == len(words) else " and ".join(f"“{word}”" for word in best)
    entropy = float(torch.special.entr(weights).sum())
    place = ", ".join(f"{round(number, 2) + 0.0:.2f}" for number in output)
    answer = "saturated, nothing moves it" if change < SATURATED else "it still answers"
    return (
        f"The largest weight, {top:.2f}, goes to {named}. Entropy {entropy:.2f} of at most "
        f"{math.log(len(words)):.2f} nats. Gradient {plain(change)}: {answer}. "
        f"Output [{place}]."
    )


class AttentionExplorer(Explorer):
    """Slide a query over four keys, and see scores, weights and the blend of the values follow.

    Attributes:
        scores: What softmax sees, after scale and temperature. Shape ``(S,)``.
        weights: Shape ``(S,)``.
        output: The blended value, two numbers.
    """

    def __init__(self) -> None:
        self.offered, self.blended = (torch.tensor(rows).double() for rows in (KEYS, VALUES))
        fig = make_figure(6.4, 5.2)
        fig.set_layout_engine("none")  # the panels keep their places, whatever the numbers
        with rc_context(fname=STYLE):
            self.axes = {name: fig.add_axes(place) for name, place in PLACES.items()}
            for name, title in TITLES.items():
                self.axes[name].set_title(title)
            for name in ("meeting", "blend"):
                self.axes[name].set(xticks=TICKS, yticks=TICKS, axisbelow=True)
                self.axes[name].grid(True, color="#DDDDDD", linewidth=0.8)
                self.axes[name].tick_params(length=0)
        super().__init__(make_controls(), fig)

    def redraw(self) -> tuple[str, str]:
        """Draw the query, the scores, the weights and the blend."""
        shown = self.values()
        query = torch.tensor([shown["x"], shown["y"]], dtype=torch.float64)
        raw = plane_scores(query, self.offered, shown["d_k"], shown["divide"])
        self.scores = raw / shown["temperature"]  # (S,)
        self.weights = self.scores.softmax(dim=-1)  # (S,)
        self.output = (self.weights @ self.blended).tolist()
        limit = next(limit for limit in LIMITS if limit >= self.scores.abs().max())
        draw_meeting(query, self.offered, WORDS, self.axes["meeting"])
        draw_blend(self.weights, self.blended, WORDS, self.axes["blend"])
        draw_bars(self.scores, WORDS, "score", limit, self.axes["scores"])
        draw_bars(self.weights, WORDS, "weight", 1, self.axes["weights"])
        low = self.scores.min()
        high = self.scores.max()
        sentence = f"Scores from {low:.2f} to {high:.2f}. "
        sentence += describe(self.weights, self.output, WORDS)
        numbers = [
            f"{word}: score {score:.2f}, weight {weight:.2f}"
            for word, score, weight in zip(WORDS, self.scores, self.weights, strict=True)
        ]
        place = f"{shown['x']:.1f}, {shown['y']:.1f}"
        return sentence, f"A query at [{place}] and four keys. {'; '.join(numbers)}. {sentence}"


def make_controls() -> dict[str, widgets.Widget]:
    """Make the controls, set to the numbers of the picture that opens the chapter."""
    how = dict(style=LABEL, layout=WIDE)
    plane = how | dict(min=-3.0, max=3.0, step=0.1, readout_format=".1f")
    temperatures = [(f"{2.0**k:g}", 2.0**k) for k in range(-3, 5)]
    widths = [2**k for k in range(10)]
    slider = widgets.SelectionSlider
    return {
        "x": widgets.FloatSlider(description="query, across", value=2.0, **plane),
        "y": widgets.FloatSlider(description="query, up", value=1.0, **plane),
        "d_k": slider(description="d_k", options=widths, value=2, **how),
        "divide": widgets.Checkbox(description="divide by √d_k", value=True, **how),
        "temperature": slider(description="temperature", options=temperatures, value=1.0, **how),
    }
