"""Draw a mask as a table of query by key, and one row of it as it is printed (§3.2.3)."""

from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.font_manager import FontProperties
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.textpath import TextPath, text_to_path
from torch import Tensor

from course_lib.viz.plots import COLOURS, heatmap

FONT = FontProperties(family="DejaVu Sans", size=10)
TWO_LINES = {"nn.MultiheadAttention": ["nn.Multihead-", "Attention"]}  # where room is short
LINE = "#8A8A8A"
FRAME = dict(fill=False, edgecolor=COLOURS["query"], linewidth=2.5, clip_on=False, zorder=3)
# in points
LABEL_ROOM = 62  # beside and below a table
ROW_WIDTH = 455
ROW_HEIGHT = 91
NAMES_WIDTH = 78
MAX_COLUMN = 60  # the printed row
LINE_HEIGHT = 18
LEADING = 12  # from line to line, and inside a name of two lines


@cache
def shorten(word: str, room: float) -> str:
    """Cut a word that is wider than the room for it, in points, and end it with “…”."""
    kept = len(word)
    short = word
    while text_to_path.get_text_width_height_descent(short, FONT, False)[0] > room and kept > 1:
        kept -= 1
        short = word[:kept] + "…"
    return short.replace("$", r"\$")  # no formula


def draw_table(values: Tensor, mask: Tensor, words: tuple, row: int, ax: Axes, **how) -> None:
    """Draw a table, and a frame around one row.

    Args:
        values: Shape ``(T, S)``.
        mask: Boolean, shape ``(T, S)``; ``False`` is hatched.
        words: The T words of the rows, and the S words of the columns.
        row: The framed row, from 0.
        ax: Where to draw.
        **how: For ``heatmap``.
    """
    rows, columns = ([shorten(word, LABEL_ROOM) for word in axis] for axis in words)
    heatmap(values, rows, columns, mask=mask, ax=ax, **how)
    ax.tick_params(axis="x", rotation=90)
    T, S = mask.shape
    across = [[(-0.5, t - 0.5), (S - 0.5, t - 0.5)] for t in range(1, T)]
    down = [[(s - 0.5, -0.5), (s - 0.5, T - 0.5)] for s in range(1, S)]
    ax.add_collection(LineCollection(across + down, colors=LINE, linewidths=0.6), autolim=False)
    ax.add_artist(Rectangle((-0.5, row - 0.5), S, 1, **FRAME))


@cache
def outline(word: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the shape of a word, its kinds of line, and its width in points."""
    path = TextPath((0, 0), word, prop=FONT)
    return path.vertices, path.codes, text_to_path.get_text_width_height_descent(word, FONT, 0)[0]


def draw_words(placed: list[tuple[float, float, str, float]], ax: Axes) -> None:
    """Draw many words as one shape, in a small part of the time that as many texts take.

    Args:
        placed: For each word the place (x, y), in points, the word, and which share of it stands
            left of x.
        ax: Where to draw, 1 unit a point.
    """
    shapes = [(x, y, share, *outline(word)) for x, y, word, share in placed]
    corners = [path + (x - share * width, y) for x, y, share, path, _, width in shapes]
    letters = Path(np.concatenate(corners), np.concatenate([shape[4] for shape in shapes]))
    ax.add_artist(PathPatch(letters, color="black", linewidth=0))


def draw_row(lines: dict[str, list[str]], look: Tensor, keys: list[str], ax: Axes) -> None:
    """Write one row of the mask as every convention prints it, below the words of its keys.

    Args:
        lines: For each convention, S words; the last line is the weights.
        look: The row of the mask, shape ``(S,)``; blocked columns are grey.
        keys: The S words of the columns.
        ax: Where to draw, 1 unit a point.
    """
    width = min(MAX_COLUMN, (ROW_WIDTH - NAMES_WIDTH) / len(keys))
    table = {"key": [shorten(key, width - 2) for key in keys]} | lines
    ax.axis("off")
    ax.set(xlim=(0, ROW_WIDTH), ylim=(0, ROW_HEIGHT))
    placed: list[tuple[float, float, str, float]] = []
    for k, (name, cells) in enumerate(table.items()):
        y = ROW_HEIGHT - LINE_HEIGHT * (k + 0.7)
        parts = TWO_LINES.get(name, [name])
        for part, words in enumerate(parts):
            lift = LEADING * ((len(parts) - 1) / 2 - part)
            placed.append((NAMES_WIDTH - 7, y + lift, words, 1))
        middles = [NAMES_WIDTH + width * (s + 0.5) for s in range(len(keys))]
        placed += [(x, y, cell, 0.5) for x, cell in zip(middles, cells, strict=True)]
    for s in (~look).nonzero().flatten().tolist():
        corner = (NAMES_WIDTH + s * width, 0)
        ax.add_artist(Rectangle(corner, width, ROW_HEIGHT, color=COLOURS["masked"], linewidth=0))
    ax.add_artist(Rectangle((NAMES_WIDTH, 0), width * len(keys), ROW_HEIGHT, **FRAME))
    draw_words(placed, ax)


def draw_scale(ax: Axes) -> None:
    """Draw what the colours of the weights mean, beside them."""
    shares = [[1 - k / 63] for k in range(64)]
    ax.imshow(shares, cmap="cividis", aspect="auto", extent=(0, 1, 0, 1))
    ax.yaxis.tick_right()
    ax.set(xticks=[], yticks=[0, 1])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
