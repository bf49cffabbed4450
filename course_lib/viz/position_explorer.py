"""An explorer of positional encodings (paper, §3.5)."""

import math
from functools import cache

import ipywidgets as widgets
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

from course_lib.modern_decoder import rope_angles
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import LearnedPositionalEmbedding
from course_lib.trainer.hardware import one_thread
from course_lib.viz.explorer_base import LOOK, Explorer, make_axes
from course_lib.viz.plots import COLOURS

ROWS = 128  # of the learned table
WIDTH = 64
TRAINED_ROWS = 48  # the length of the training sentences
VOCAB_SIZE = 16
BATCH = 8
STEPS = 200
RATE = 0.012
# left, bottom, width, height, in inches
MAP, HAND, PRODUCTS = (0.62, 2.65, 3.1, 2.6), (4.35, 3.0, 1.9, 1.9), (0.72, 0.55, 4.0, 1.35)
LINE = 1.2 / 72  # width of a frame, in inches
FAR = 5  # the distance at which the sentence compares all pairs of positions
KINDS = {"sinusoidal": "waves", "learned (from a trained model)": "learned", "none": "none"}


class NearnessModel(nn.Module):
    """Predict which words are near every token, with one attention layer and learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB_SIZE, WIDTH)
        self.positions = LearnedPositionalEmbedding(WIDTH, ROWS)
        self.attention = MultiHeadAttention(WIDTH, num_heads=4)
        self.output = nn.Linear(WIDTH, VOCAB_SIZE)
        for name, parameter in self.named_parameters():
            std = {"words.weight": 1.0, "positions.weight": 0.02}.get(name, WIDTH**-0.5)
            nn.init.normal_(parameter, std=std)

    def forward(self, ids: Tensor) -> Tensor:
        """Turn ids ``(B, L)`` into logits ``(B, L, V)``."""
        x = self.positions(self.words(ids))  # (B, L, d_model)
        return self.output(self.attention(x, x, x)[0])  # (B, L, V)


@cache
def learned_table() -> Tensor:
    """Train a small model in about a second, and return its positional embedding.

    The task needs positions: the model predicts for every token which words are near it, and nearer
    words count more. The rows after ``TRAINED_ROWS`` keep their initial values.

    Returns:
        Shape ``(ROWS, WIDTH)``.
    """
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = NearnessModel()
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
        for _ in range(STEPS):
            optimizer.zero_grad()
            nearness_loss(model, torch.randint(VOCAB_SIZE, (BATCH, TRAINED_ROWS))).backward()
            optimizer.step()
    return model.positions.weight.detach()


def nearness_loss(model: NearnessModel, ids: Tensor) -> Tensor:
    """Compute the mean cross-entropy of the words near every token of ids ``(B, L)``, in nats."""
    place = torch.arange(ids.size(1))
    nearness = (-(place[:, None] - place).abs() / 3).softmax(dim=-1)  # (L, L), e^(-distance / 3)
    targets = nearness @ nn.functional.one_hot(ids, VOCAB_SIZE).float()  # (B, L, V)
    return -(targets * model(ids).log_softmax(dim=-1)).sum(dim=-1).mean()


def most_similar(table: Tensor, position: int) -> int:
    """Find the position that has the largest dot product with the chosen one.

    Products that differ by less than 0.001 count as equal. The nearest position wins then.

    Args:
        table: Shape ``(max_len, d_model)``.
        position: The chosen position, which is never the answer.
    """
    products = table @ table[position]  # (max_len,)
    products[position] = -math.inf
    best = (products > products.max() - 1e-3).nonzero().flatten()
    return int(best[(best - position).abs().argmin()])


def draw_table(ax: Axes, table: Tensor, position: int, pair: int) -> None:
    """Draw all codes, positions down and columns across, with frames around the chosen ones."""
    max_len, d_model = table.shape
    ax.imshow(table.numpy(), vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto", interpolation="nearest")
    x = LINE * d_model / MAP[2]
    y = LINE * max_len / MAP[3]
    for corner, width, height in (  # the frames are outside of the cells
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
    """Draw a pair of columns as a clock hand: cosine to the right, sine up, a dot per position."""
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
    """Draw the dot product of the chosen position with each position, over their distance."""
    products = table @ table.T
    last = table.size(0) - 1
    other = most_similar(table, position)
    low = float(products.min())
    high = float(products.max())
    room = 0.12 * max(high - low, 1.0)
    distance = torch.arange(-position, last + 1 - position).numpy()
    ax.plot(distance, products[position].numpy(), ".-", color="#555555", lw=1.2, ms=4)
    marks = ((position, "query", "o", "with itself"), (other, "key", "D", "most similar"))
    for place, role, shape, name in marks:
        value = float(products[position, place])
        ax.plot(place - position, value, shape, color=COLOURS[role], ms=8, label=name)
    ax.set(xlim=(-last - 1, last + 1), ylim=(low - room, high + room))
    ax.set(xlabel=f"distance from position {position}", ylabel="dot product")
    ax.set_title("How similar every other position is")
    _few_ticks(ax, 4)
    if ax.get_legend() is None:  # the legend never changes
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _few_ticks(ax: Axes, number: int) -> None:
    """Limit the number of ticks on both axes."""
    ax.xaxis.set_major_locator(MaxNLocator(number, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(number, integer=number == 6))


def rounded(value: float | Tensor) -> str:
    """Format a number with two decimals, and zero without a sign."""
    return f"{float(value):z.2f}".replace("-", "−")


def span(values: Tensor) -> str:
    """Format the smallest and the largest value, or one value if both look the same.

    Example:
        >>> span(torch.tensor([2.0, 1.0])), span(torch.tensor([1.0, 1.0]))
        ('1.00 to 2.00', '1.00')
    """
    low, high = (rounded(value) for value in values.aminmax())
    return low if low == high else f"{low} to {high}"


def describe(table: Tensor, kind: str, position: int, pair: int) -> str:
    """Describe the hand, and whether products depend on the distance only, in two lines.

    Args:
        table: Shape ``(max_len, d_model)``.
        kind: One of the values of ``KINDS``.
        position: The chosen position.
        pair: The chosen pair of columns.
    """
    if kind == "none":
        return (
            f"Without a code, position {position} has 0 in every column, as all positions have, "
            "and all products are 0, so attention sees a bag of words."
        )
    sine, cosine = table[position, 2 * pair : 2 * pair + 2].tolist()
    products = table @ table.T  # (max_len, max_len)
    away = abs(most_similar(table, position) - position)
    own, far = (span(products.diagonal(apart)) for apart in (0, FAR))
    sentence = (
        f"At position {position}, pair {pair} reads {rounded(sine)} and {rounded(cosine)}. "
        f"Of {len(table)} positions, the most similar one is {away} away.\n"
        f"Two positions {FAR} apart have the product {far}; a position with itself, {own}."
    )
    if kind == "learned" and len(table) > TRAINED_ROWS:
        sentence += f" Rows from {TRAINED_ROWS} on are noise: no training sentence was that long."
    return sentence


class PositionExplorer(Explorer):
    """Show the codes of all positions, one pair of columns as a clock hand, and the dot products.

    The learned table has ``WIDTH`` columns. While it is shown, the sliders of width and base are
    disabled. It is trained in about a second when it is first needed.
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
        """Return the chosen codes. Shape ``(positions, d_model)``."""
        v = self.values()
        if v["kind"] == "learned":
            return learned_table()[: v["positions"]]
        angles = rope_angles(v["positions"], v["d_model"], v["base"])  # (L, d_model / 2)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (L, d_model)
        return waves if v["kind"] == "waves" else torch.zeros_like(waves)

    def redraw(self) -> tuple[str, str]:
        """Draw the three panels, and describe them."""
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
            f"the hand of pair {pair}; its dot products with all positions, over the distance. "
        )
        return sentence, alt + sentence

    def _fit(self) -> None:
        """Limit the controls to the rows and pairs of the table, and to its width if learned."""
        learned = self.controls["kind"].value == "learned"
        if learned:
            self.controls["d_model"].value = WIDTH
        self.controls["d_model"].disabled = learned
        self.controls["base"].disabled = self.controls["kind"].value != "waves"
        self.controls["position"].max = self.controls["positions"].value - 1
        self.controls["pair"].max = self.controls["d_model"].value // 2 - 1
