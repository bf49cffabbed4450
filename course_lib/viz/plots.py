"""Draw tensors: every function takes values and words, draws on one ``ax``, and returns it."""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.transforms import Affine2D
from PIL import Image
from torch import Tensor

STYLE = Path(__file__).with_name("course.mplstyle")
COLOURS = {"query": "#0072B2", "key": "#D55E00", "value": "#009E73", "masked": "#BBBBBB"}
HATCH = "#777777"  # on the grey of what is masked: a weight of 0.5 is almost as grey
LINES = ["-", "--", ":", "-."]  # most colours of the style are equally light
PIXELS = 96  # CSS pixels of an inch
SHARPNESS = 2  # pixels painted for each of them
PAGE = 6.4  # inches


def use_course_style() -> None:
    """Give every plot of this notebook the course's fonts, sizes and colours."""
    plt.style.use(STYLE)


def show(fig: Figure, *, alt: str) -> None:
    """Show a figure below the cell, with text for readers who do not see it, and close it.

    Args:
        fig: The figure.
        alt: What there is to see, in a sentence or two. Strict nbval compares it, so it may hold
            only numbers that are the same on every machine.

    Raises:
        ValueError: If the text is empty.
    """
    if not alt.strip():
        raise ValueError("show(fig, alt=…) needs a sentence that says what there is to see")
    painted = io.BytesIO()
    fig.savefig(painted, format="png", dpi=SHARPNESS * PIXELS)
    plt.close(fig)
    image = Image.open(painted)
    width = round(image.width / SHARPNESS)
    display(picture_data(image, alt, width), raw=True, metadata={"image/png": {"width": width}})


def picture_data(image: Image.Image, alt: str, width: int) -> dict[str, str]:
    """Store a picture in the three forms that programs look for.

    JupyterLab and the site show the HTML, because a PNG alone has no alt text there. Programs that
    cannot show the HTML use the PNG or the plain text. The PNG has at most 256 colours, which takes
    a third of the bytes.

    Args:
        image: The picture.
        alt: What there is to see.
        width: The width on the page, in CSS pixels.

    Returns:
        One output: its data by MIME type.
    """
    file = io.BytesIO()
    image.convert("RGB").quantize(256).save(file, format="png", optimize=True)
    png = base64.b64encode(file.getvalue()).decode()
    source = f"data:image/png;base64,{png}"
    page = f'<img alt="{html.escape(alt)}" width="{width}" src="{source}">'
    return {"text/html": page, "image/png": png, "text/plain": alt}


def heatmap(
    values: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    mask: Tensor | None = None,
    limit: float | None = None,
    numbers: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw a table of values, queries down and keys across, with fixed limits.

    Args:
        values: Shape ``(T, S)``. Weights in [0, 1], unless ``limit`` is given.
        rows: A word for every row.
        columns: A word for every column.
        mask: Boolean, shape ``(T, S)``; where it is ``False`` the cell is grey and hatched.
        limit: For signed values: the colours go from -limit to limit, white at 0.
        numbers: Whether to write the values into the cells.
        ax: Where to draw; a new figure unless given.

    Raises:
        ValueError: If the words or the mask do not fit the values.
    """
    values = values.detach().cpu()
    if tuple(values.shape) != (len(rows), len(columns)):
        raise ValueError(
            f"values {tuple(values.shape)} need as many words, "
            f"got {len(rows)} rows and {len(columns)} columns"
        )
    if mask is not None and mask.shape != values.shape:
        raise ValueError(f"mask {tuple(mask.shape)} does not fit values {tuple(values.shape)}")
    size, upright = _size(rows, columns)
    ax = ax or plt.subplots(figsize=size)[1]
    if mask is not None:
        values = values.masked_fill(~mask.cpu(), float("nan"))
        ax.add_artist(hatched(~mask.cpu()))
    low, high, colours = (0, 1, "cividis") if limit is None else (-limit, limit, "RdBu_r")
    shades = plt.get_cmap(colours).with_extremes(bad=COLOURS["masked"])
    ax.imshow(values.numpy(), vmin=low, vmax=high, cmap=shades, aspect="auto")
    _write_words(ax, rows, columns, upright)
    if numbers:
        _write_numbers(ax, values, low, high)
    return ax


def hatched(blocked: Tensor) -> PathPatch:
    """Make one hatched shape of all blocked cells of a table.

    Args:
        blocked: Boolean, shape ``(T, S)``.
    """
    places = (Affine2D().translate(s - 0.5, t - 0.5) for t, s in blocked.nonzero().tolist())
    squares = [Outline.unit_rectangle().transformed(place) for place in places]
    cells = Outline.make_compound_path(*squares)
    return PathPatch(cells, fill=False, hatch="////", edgecolor=HATCH, linewidth=0)


def curves(
    x: Sequence[float] | Tensor,
    lines: Mapping[str, Sequence[float] | Tensor],
    *,
    xlabel: str,
    ylabel: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw one line for each name, told apart without colour by their dashes.

    Args:
        x: Shape ``(K,)``.
        lines: For each name, values of shape ``(K,)``.
        xlabel: What x is, with its unit.
        ylabel: What the values are, with their unit.
        ax: Where to draw; a new figure unless given.

    Raises:
        ValueError: If a line is not as long as x.
    """
    for name, values in lines.items():
        if len(values) != len(x):
            raise ValueError(f"line {name!r} has {len(values)} values, x has {len(x)}")
    ax = ax or plt.subplots()[1]
    for (name, values), style in zip(lines.items(), cycle(LINES), strict=False):
        ax.plot(_plain(x), _plain(values), style, label=name)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if len(lines) > 1:
        ax.legend()
    return ax


def bars(
    names: Sequence[str],
    values: Sequence[float] | Tensor,
    *,
    ylabel: str,
    colour: str = COLOURS["query"],
    ax: Axes | None = None,
) -> Axes:
    """Draw one bar for each name.

    Args:
        names: A word for every bar.
        values: Shape ``(K,)``.
        ylabel: What the values are, with their unit.
        colour: One of ``COLOURS`` where the bars have a role.
        ax: Where to draw; a new figure unless given.

    Raises:
        ValueError: If there are not as many names as values.
    """
    if len(names) != len(values):
        raise ValueError(f"{len(names)} names do not fit {len(values)} values")
    ax = ax or plt.subplots()[1]
    ax.bar(range(len(names)), _plain(values), color=colour)
    ax.set_xticks(range(len(names)), names)
    ax.set_ylabel(ylabel)
    return ax


def _plain(values: Sequence[float] | Tensor) -> Sequence[float] | np.ndarray:
    """Turn a tensor into what matplotlib takes."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def _size(rows: Sequence[str], columns: Sequence[str]) -> tuple[tuple[float, float], bool]:
    """Choose width and height in inches, and whether the words below must stand upright.

    A cell is as wide as the longest word below it, while all fit the page.
    """
    letter = 0.095
    margin = 0.6  # inches, at 10 points
    left = margin + letter * max(map(len, rows))
    cell = max(0.55, 0.1 + letter * max(map(len, columns)))
    upright = left + cell * len(columns) > PAGE
    if upright:
        cell = min(0.55, (PAGE - left) / len(columns))
    below = letter * max(map(len, columns)) if upright else 0
    return (left + cell * len(columns), 0.9 + below + 0.5 * len(rows)), upright


def _write_words(ax: Axes, rows: Sequence[str], columns: Sequence[str], upright: bool) -> None:
    """Write the words of a table beside and below it, without a frame."""
    ax.set_xticks(range(len(columns)), columns, rotation=90 if upright else 0)
    ax.set_yticks(range(len(rows)), rows)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _write_numbers(ax: Axes, shown: Tensor, low: float, high: float) -> None:
    """Write every value into its cell, dark on light and light on dark."""
    for row, column in (~shown.isnan()).nonzero().tolist():  # a blocked cell holds nan
        value = float(shown[row, column])
        share = (value - low) / (high - low)
        dark = share < 0.5 if low == 0 else abs(share - 0.5) > 0.35
        how = dict(ha="center", va="center", fontsize=10, color="white" if dark else "black")
        ax.text(column, row, f"{value:.2f}", **how)


def probe_picture(result: Any, *, ax: Axes | None = None) -> Axes:
    """Draw what a probe measured: which token moves which position's logits, or a loss.

    Args:
        result: A ``ProbeResult``, such as those of ``causality``, ``context`` and
            ``overfit_one_batch``. Influence is drawn by its logarithm, from 1e-6 to 1.
        ax: Where to draw; a new figure unless given.

    Raises:
        ValueError: If there is nothing to draw.
    """
    data = result.data
    if isinstance(data, Tensor) and data.dim() == 2:
        rows, columns = ([str(place) for place in range(size)] for size in data.shape)
        ax = heatmap((data.clamp(1e-6, 1).log10() / 6 + 1).float(), rows, columns, ax=ax)
        ax.set(xlabel="token that changes", ylabel="position whose logits move")
    elif isinstance(data, list) and data and isinstance(data[0], float):
        steps = range(1, len(data) + 1)
        ax = curves(steps, {"loss": data}, xlabel="step", ylabel="nats", ax=ax)
    else:
        raise ValueError(f"the probe {result.name!r} has nothing to draw")
    return ax
