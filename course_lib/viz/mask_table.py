"""Drawings of a mask: the table of queries by keys, and one printed row (paper, §3.2.3)."""

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
# in points
LABEL_ROOM = 62  # next to and below a table
ROW_WIDTH = 455
ROW_HEIGHT = 91
NAMES_WIDTH = 78
MAX_COLUMN = 60  # in the printed row
LINE_HEIGHT = 18
LEADING = 12  # between the two lines of a name


@cache
def shorten(word: str, room: float) -> str:
    """Shorten a word that is wider than ``room`` points, and end it with “…”."""
    length = len(word)
    short = word
    while width_of(short) > room and length > 1:
        length -= 1
        short = word[:length] + "…"
    return short.replace("$", r"\$")  # so that it is not read as a formula


def width_of(word: str) -> float:
    """Measure the width of a word, in points."""
    return text_to_path.get_text_width_height_descent(word, FONT, False)[0]


def draw_frame(corner: tuple[float, float], width: float, height: float, ax: Axes) -> None:
    """Draw a thick frame around some cells."""
    color = COLOURS["query"]
    frame = Rectangle(corner, width, height, fill=False, ec=color, lw=2.5, clip_on=False, zorder=3)
    ax.add_artist(frame)


def draw_table(
    values: Tensor,
    mask: Tensor,
    labels: tuple[list[str], list[str]],
    row: int,
    ax: Axes,
    limit: float | None = None,
) -> None:
    """Draw a table, and a frame around one row.

    Args:
        values: Shape ``(T, S)``.
        mask: Boolean, shape ``(T, S)``. Cells that are ``False`` are hatched.
        labels: The T words of the rows, and the S words of the columns.
        row: The framed row, from 0.
        ax: The axes to draw on.
        limit: As in ``heatmap``.
    """
    rows, columns = ([shorten(word, LABEL_ROOM) for word in words] for words in labels)
    heatmap(values, rows, columns, mask=mask, limit=limit, ax=ax)
    ax.tick_params(axis="x", rotation=90)
    T, S = mask.shape
    across = [[(-0.5, t - 0.5), (S - 0.5, t - 0.5)] for t in range(1, T)]
    down = [[(s - 0.5, -0.5), (s - 0.5, T - 0.5)] for s in range(1, S)]
    ax.add_collection(LineCollection(across + down, colors=LINE, linewidths=0.6), autolim=False)
    draw_frame((-0.5, row - 0.5), S, 1, ax)


@cache
def outline(word: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the vertices of a word's outline, their codes, and its width in points."""
    path = TextPath((0, 0), word, prop=FONT)
    return path.vertices, path.codes, width_of(word)


def draw_words(placed: list[tuple[float, float, str, float]], ax: Axes) -> None:
    """Draw many words as one shape, which is much faster than drawing many texts.

    Args:
        placed: For each word, x and y in points, the word, and the fraction of its width that is
            to the left of x.
        ax: The axes to draw on, where one unit is a point.
    """
    shapes = [(x, y, left, *outline(word)) for x, y, word, left in placed]
    corners = [path + (x - left * width, y) for x, y, left, path, _, width in shapes]
    letters = Path(np.concatenate(corners), np.concatenate([shape[4] for shape in shapes]))
    ax.add_artist(PathPatch(letters, color="black", linewidth=0))


def draw_row(lines: dict[str, list[str]], look: Tensor, keys: list[str], ax: Axes) -> None:
    """Print one row of the mask in every convention, below the words of its keys.

    Args:
        lines: For each convention, S words. The last line contains the weights.
        look: The row of the mask, shape ``(S,)``. Blocked columns are gray.
        keys: The S words of the columns.
        ax: The axes to draw on, where one unit is a point.
    """
    width = min(MAX_COLUMN, (ROW_WIDTH - NAMES_WIDTH) / len(keys))
    table = {"key": [shorten(key, width - 2) for key in keys]} | lines
    ax.axis("off")
    ax.set(xlim=(0, ROW_WIDTH), ylim=(0, ROW_HEIGHT))
    placed: list[tuple[float, float, str, float]] = []
    for k, (name, cells) in enumerate(table.items()):
        y = ROW_HEIGHT - LINE_HEIGHT * (k + 0.7)
        parts = TWO_LINES.get(name, [name])
        for line, part in enumerate(parts):
            lift = LEADING * ((len(parts) - 1) / 2 - line)
            placed.append((NAMES_WIDTH - 7, y + lift, part, 1))
        middles = [NAMES_WIDTH + width * (s + 0.5) for s in range(len(keys))]
        placed += [(x, y, cell, 0.5) for x, cell in zip(middles, cells, strict=True)]
    for s in (~look).nonzero().flatten().tolist():
        corner = (NAMES_WIDTH + s * width, 0)
        ax.add_artist(Rectangle(corner, width, ROW_HEIGHT, color=COLOURS["masked"], linewidth=0))
    draw_frame((NAMES_WIDTH, 0), width * len(keys), ROW_HEIGHT, ax)
    draw_words(placed, ax)


def draw_scale(ax: Axes) -> None:
    """Draw the color scale of the weights."""
    scale = [[1 - k / 63] for k in range(64)]
    ax.imshow(scale, cmap="cividis", aspect="auto", extent=(0, 1, 0, 1))
    ax.yaxis.tick_right()
    ax.set(xticks=[], yticks=[0, 1])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
