"""Move a position, and see what its code reads and which other positions it is like (§3.5)."""

import math
from functools import cache

import ipywidgets as widgets
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import LearnedPositionalEmbedding
from course_lib.trainer.hardware import one_thread
from course_lib.viz.explorer_base import LOOK, Explorer, make_axes
from course_lib.viz.plots import COLOURS

ROWS = 128
WIDTH = 64
SEEN = 48  # the learned table, and the length of its training sentences
WORDS = 16
BATCH = 8
STEPS = 200
RATE = 0.012  # its training
# left, bottom, width, height, in inches
MAP, HAND, PRODUCTS = (0.62, 2.65, 3.1, 2.6), (4.35, 3.0, 1.9, 1.9), (0.72, 0.55, 4.0, 1.35)
LINE = 1.2 / 72  # of a frame, in inches
FAR = 5  # the distance at which the sentence compares all pairs of positions
KINDS = {"sinusoidal": "waves", "learned (from a trained model)": "learned", "none": "none"}


def waves_of_base(max_len: int, d_model: int, base: float) -> Tensor:
    """Give every position its row of waves, as ``sinusoidal_encoding`` does for base 10000.

    The slowest wave is nearly base · 2π positions long. Shape ``(max_len, d_model)``, in [-1, 1].
    """
    position = torch.arange(max_len, dtype=torch.float64).unsqueeze(1)  # (max_len, 1)
    even = torch.arange(0, d_model, 2, dtype=torch.float64)  # (ceil(d_model / 2),)
    angle = position / base ** (even / d_model)  # (max_len, ceil(d_model / 2))
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1)  # (max_len, ceil(d_model / 2), 2)
    return waves.flatten(1)[:, :d_model].to(torch.get_default_dtype())  # (max_len, d_model)


@cache
def learned_table() -> Tensor:
    """Train a small model once, in about a second, and return the rows that it learned.

    Its task needs positions: every token says which words stand near it, and a near word counts
    more than a far one. Its sentences have ``SEEN`` tokens; the rows after them learn nothing.

    Returns:
        Shape ``(ROWS, WIDTH)``.
    """
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        parts = nn.ModuleDict(
            {
                "words": nn.Embedding(WORDS, WIDTH),
                "positions": LearnedPositionalEmbedding(WIDTH, ROWS),
                "attention": MultiHeadAttention(WIDTH, num_heads=4),
                "output": nn.Linear(WIDTH, WORDS),
            }
        )
        for name, parameter in parts.named_parameters():
            std = {"words.weight": 1.0, "positions.weight": 0.02}.get(name, WIDTH**-0.5)
            nn.init.normal_(parameter, std=std)
        optimizer = torch.optim.Adam(parts.parameters(), lr=RATE, fused=True)
        for _ in range(STEPS):
            optimizer.zero_grad()
            nearness_loss(parts, torch.randint(WORDS, (BATCH, SEEN))).backward()
            optimizer.step()
    return parts["positions"].weight.detach()


def nearness_loss(parts: nn.ModuleDict, ids: Tensor) -> Tensor:
    """Ask every token which words stand near it, and measure the surprise at the right shares.

    Args:
        parts: The modules ``words``, ``positions``, ``attention`` and ``output``.
        ids: Shape ``(B, L)``.

    Returns:
        The mean cross-entropy in nats, a scalar.
    """
    place = torch.arange(ids.size(1))
    nearness = (-(place[:, None] - place).abs() / 3).softmax(dim=-1)  # (L, L), e^(-distance / 3)
    shares = nearness @ nn.functional.one_hot(ids, WORDS).float()  # (B, L, V)
    x = parts["positions"](parts["words"](ids))  # (B, L, d_model)
    log_probs = parts["output"](parts["attention"](x, x, x)[0]).log_softmax(dim=-1)  # (B, L, V)
    return -(shares * log_probs).sum(dim=-1).mean()


def most_alike(table: Tensor, position: int) -> int:
    """Find the nearest of the positions whose product with the chosen one is the largest.

    Args:
        table: Shape ``(max_len, d_model)``.
        position: The chosen one; it does not count itself.

    Returns:
        A position. Equal to the third digit is equal: then the nearest stands for all.
    """
    products = table @ table[position]  # (max_len,)
    products[position] = -math.inf
    best = (products > products.max() - 1e-3).nonzero().flatten()
    return int(best[(best - position).abs().argmin()])


def draw_table(ax: Axes, table: Tensor, position: int, pair: int) -> None:
    """Draw all codes, positions down and columns across; frame the chosen position and pair."""
    max_len, d_model = table.shape
    ax.imshow(table.numpy(), vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto", interpolation="nearest")
    x = LINE * d_model / MAP[2]
    y = LINE * max_len / MAP[3]
    for corner, width, height in (  # the frames lie outside what they frame
        ((-0.5, position - 0.5 - y), d_model, 1 + 2 * y),
        ((2 * pair - 0.5 - x, -0.5), 2 + 2 * x, max_len),
    ):
        frame = Rectangle(corner, width, height, fill=False, lw=72 * LINE, clip_on=False)
        frame.set_path_effects([withStroke(linewidth=144 * LINE, foreground="white")])
        ax.add_patch(frame)
    ax.set(xlim=(-0.5, d_model - 0.5), ylim=(max_len - 0.5, -0.5))
    ax.set(xlabel="column", ylabel="position", title="Codes: red 1, white 0, blue −1")
    _few_ticks(ax, 6)


def draw_hand(ax: Axes, table: Tensor, position: int, pair: int) -> None:
    """Draw a pair of columns as a hand: cosine to the right, sine upwards; a dot per position."""
    sine = table[:, 2 * pair].numpy()
    cosine = table[:, 2 * pair + 1].numpy()
    ax.add_patch(Circle((0, 0), 1, fill=False, ec="#CCCCCC"))
    ax.plot(cosine, sine, ".", color="#777777", ms=5)
    ax.plot([0, cosine[position]], [0, sine[position]], color=COLOURS["query"], lw=3)
    ax.plot(cosine[position], sine[position], "o", color=COLOURS["query"], ms=9)
    ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), title=f"Pair {pair} as a hand")
    ax.set(xlabel=f"column {2 * pair + 1}", ylabel=f"column {2 * pair}")
    _few_ticks(ax, 2)


def draw_products(ax: Axes, table: Tensor, position: int) -> None:
    """Draw the dot product of the chosen position with every other against their distance."""
    products = table @ table.T
    last = table.size(0) - 1
    other = most_alike(table, position)
    low = float(products.min())
    high = float(products.max())
    room = 0.12 * max(high - low, 1.0)
    distance = torch.arange(-position, last + 1 - position).numpy()
    ax.plot(distance, products[position].numpy(), ".-", color="#555555", lw=1.2, ms=4)
    marks = ((position, "query", "o", "with itself"), (other, "key", "D", "most alike"))
    for place, colour, shape, name in marks:
        value = float(products[position, place])
        ax.plot(place - position, value, shape, color=COLOURS[colour], ms=8, label=name)
    ax.set(xlim=(-last - 1, last + 1), ylim=(low - room, high + room))
    ax.set(xlabel=f"distance from position {position}", ylabel="dot product")
    ax.set_title("How alike every other position is")
    _few_ticks(ax, 4)
    if ax.get_legend() is None:  # it never changes
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _few_ticks(ax: Axes, number: int) -> None:
    """Put so many ticks on both axes, at most."""
    ax.xaxis.set_major_locator(MaxNLocator(number, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(number, integer=number == 6))


def rounded(value: float | Tensor) -> str:
    """Write a number with two digits, and zero without a sign."""
    return f"{float(value):z.2f}".replace("-", "−")


def span(values: Tensor) -> str:
    """Write the least and the largest of some values, or the one that all are.

    Example:
        >>> span(torch.tensor([2.0, 1.0])), span(torch.tensor([1.0, 1.0]))
        ('1.00 to 2.00', '1.00')
    """
    low, high = (rounded(value) for value in values.aminmax())
    return low if low == high else f"{low} to {high}"


def describe(table: Tensor, kind: str, position: int, pair: int) -> str:
    """Say in numbers what the hand reads, and whether the products know the distance alone.

    Args:
        table: Shape ``(max_len, d_model)``.
        kind: One of the values of ``KINDS``.
        position: The chosen one.
        pair: The chosen pair of columns.

    Returns:
        Two lines.
    """
    if kind == "none":
        return (
            f"Without a code position {position} reads 0 in every column, as every other does, "
            "and all products are 0: attention sees a bag of words."
        )
    sine, cosine = table[position, 2 * pair : 2 * pair + 2].tolist()
    products = table @ table.T  # (max_len, max_len)
    away = abs(most_alike(table, position) - position)
    own, far = (span(products.diagonal(apart)) for apart in (0, FAR))
    unseen = f" Rows from {SEEN} on are noise, as they began: no training sentence was so long."
    return (
        f"At position {position} pair {pair} reads {rounded(sine)} and {rounded(cosine)}. "
        f"Of {len(table)} positions, the most alike is {away} away.\n"
        f"Any two {FAR} apart have the product {far}; any one with itself, {own}."
    ) + unseen * (kind == "learned" and len(table) > SEEN)


class PositionExplorer(Explorer):
    """Show the codes of positions, one pair of columns as a clock's hand, and who is like whom.

    The learned table has ``WIDTH`` columns: while it is shown, the sliders of width and base rest.
    It is trained when it is first asked for, in about a second.
    """

    def __init__(self) -> None:
        slider = widgets.IntSlider
        log = dict(min=1, max=5, step=0.25, readout_format=",.0f")
        controls = {
            "kind": widgets.Dropdown(options=KINDS, description="code", **LOOK),
            "d_model": slider(WIDTH, 4, 128, 2, description="width d_model", **LOOK),
            "positions": slider(51, 8, ROWS, description="positions", **LOOK),
            "base": widgets.FloatLogSlider(10_000, description="base", **log, **LOOK),
            "position": slider(40, 0, 50, description="chosen position", **LOOK),
            "pair": slider(3, 0, WIDTH // 2 - 1, description="pair of columns", **LOOK),
        }
        super().__init__(controls, make_axes((6.4, 5.6), MAP, HAND, PRODUCTS))

    def table(self) -> Tensor:
        """Return the codes that the controls ask for. Shape ``(positions, d_model)``."""
        v = self.values()
        if v["kind"] == "learned":
            return learned_table()[: v["positions"]]
        waves = waves_of_base(v["positions"], v["d_model"], v["base"])
        return waves if v["kind"] == "waves" else torch.zeros_like(waves)

    def redraw(self) -> tuple[str, str]:
        """Draw the three panels, and say what the hand reads and who is like the position."""
        self._fit()
        table = self.table()
        v = self.values()
        position = v["position"]
        pair = v["pair"]
        draw_table(self.axes[0], table, position, pair)
        draw_hand(self.axes[1], table, position, pair)
        draw_products(self.axes[2], table, position)
        sentence = describe(table, v["kind"], position, pair)
        alt = (
            f"A map of {len(table)} positions by {table.size(1)} columns; position {position} as "
            f"the hand of pair {pair}; its product with every other, over the distance. "
        )
        return sentence, alt + sentence

    def _fit(self) -> None:
        """Offer only what the codes have: rows, pairs, and no other width where one is learned."""
        learned = self.controls["kind"].value == "learned"
        if learned:
            self.controls["d_model"].value = WIDTH
        self.controls["d_model"].disabled = learned
        self.controls["base"].disabled = self.controls["kind"].value != "waves"
        self.controls["position"].max = self.controls["positions"].value - 1
        self.controls["pair"].max = self.controls["d_model"].value // 2 - 1
