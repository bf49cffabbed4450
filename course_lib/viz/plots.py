"""Plots of tensors. Each plotting function draws labeled values on an ``ax``, which it returns."""

import base64
import html
import io
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.transforms import Affine2D
from PIL import Image
from torch import Tensor

from course_lib.probes import ProbeResult

STYLE = Path(__file__).with_name("course.mplstyle")
COLORS = {"query": "#0072B2", "key": "#D55E00", "value": "#009E73", "masked": "#77777780"}
HATCH = "#777777"  # on masked cells, because a weight of 0.5 has almost the same gray
LINES = ["-", "--", ":", "-."]  # because most of the style's colors are equally light
PIXELS = 96  # CSS pixels per inch
SHARPNESS = 2  # image pixels per CSS pixel
PAGE = 6.4  # width in inches


def use_course_style() -> None:
    """Use the course's fonts, sizes and colors for all plots in this notebook."""
    plt.style.use(STYLE)


def show(fig: Figure, *, alt: str) -> None:
    """Show a figure with its alt text below the cell, and close the figure.

    Args:
        fig: The figure.
        alt: A description of the figure for readers who cannot see it. Strict nbval compares it
            with the saved one, so all numbers in it must be the same on every machine.

    Raises:
        ValueError: If ``alt`` is empty.
    """
    if not alt.strip():
        raise ValueError("show(fig, alt=…) needs a sentence that describes the figure")
    painted = io.BytesIO()
    fig.savefig(painted, format="png", dpi=SHARPNESS * PIXELS)
    plt.close(fig)
    image = Image.open(painted)
    size = round(image.width / SHARPNESS), round(image.height / SHARPNESS)
    data, metadata = picture_output(image, alt, *size)
    display(data, raw=True, metadata=metadata)


def picture_output(
    image: Image.Image, alt: str, width: int, height: int
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Encode a picture as HTML, PNG and plain text for the output of a cell.

    The HTML is for JupyterLab, which shows a PNG without its alt text. GitHub removes pictures from
    HTML, so we save chapters without the HTML. The PNG has at most 256 colors, which reduces its
    size to a third.

    Args:
        image: The picture.
        alt: Its alt text.
        width: The width on the page, in CSS pixels.
        height: The height on the page. Because the browser knows the size, the page does not
            move when the picture loads.

    Returns:
        The data of one output by MIME type, and its metadata: the PNG's alt text and size.
    """
    file = io.BytesIO()
    few_colors(image).save(file, format="png", optimize=True)
    png = base64.b64encode(file.getvalue()).decode()
    about = {"alt": alt, "width": width, "height": height}
    data = {"text/html": image_tag(png, alt, width, height), "image/png": png, "text/plain": alt}
    return data, {"image/png": about}


def few_colors(image: Image.Image, count: int = 256) -> Image.Image:
    """Reduce a picture, perhaps a transparent one, to a few colors.

    Pillow alone changes large areas by up to 24 of 255; we keep the most frequent colors.
    """
    image = image.convert("RGBA")
    edges = image.quantize(count // 3, method=Image.Quantize.FASTOCTREE).convert("RGBA")
    pixels, rare = (np.array(each).view(np.uint32)[..., 0] for each in (image, edges))
    found, place, counts = np.unique(pixels, return_inverse=True, return_counts=True)
    rare = np.unique(rare)
    kept = np.concatenate([found[counts.argsort()[len(rare) - count :]], rare])
    colors, palette = (each.view(np.uint8).reshape(-1, 4).astype(int) for each in (found, kept))
    nearest = np.square(colors[:, None] - palette).sum(axis=-1).argmin(axis=-1)
    few = Image.fromarray(nearest[place].reshape(pixels.shape).astype(np.uint8), "P")
    few.putpalette(palette.astype(np.uint8).tobytes(), "RGBA")
    return few


def image_tag(png: str, alt: str, width: int, height: int) -> str:
    """Return the HTML for a PNG picture that is encoded in base64."""
    size = f'width="{width}" height="{height}"'
    return f'<img alt="{html.escape(alt)}" {size} src="data:image/png;base64,{png}">'


def heatmap(
    values: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    mask: Tensor | None = None,
    limit: float | None = None,
    largest: float | None = None,
    numbers: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw a heat map of values, with queries as rows, keys as columns, and a fixed color scale.

    Args:
        values: Shape ``(T, S)``. Weights in [0, 1], unless ``limit`` is given.
        rows: A label for every row.
        columns: A label for every column.
        mask: Boolean, shape ``(T, S)``. Cells that are ``False`` are gray and hatched.
        limit: For signed values. The colors go from -limit to limit, with white at 0.
        largest: For weights that are all small. This value is the brightest, and a color bar next
            to the map shows the scale.
        numbers: Whether to write the values into the cells.
        ax: The axes to draw on. The default is a new figure.

    Raises:
        ValueError: If the labels or the mask do not fit the values.
    """
    values = values.detach().cpu()
    shape = tuple(values.shape)
    if shape != (len(rows), len(columns)):
        raise ValueError(f"values of shape {shape} do not fit {len(rows)} × {len(columns)} labels")
    if mask is not None and (mask.shape != shape or mask.dtype != torch.bool):
        raise ValueError(f"a {tuple(mask.shape)} mask of {mask.dtype} does not fit {shape} values")
    size, upright = _size(rows, columns)
    ax = ax or plt.subplots(figsize=size)[1]
    if mask is not None:
        values = values.masked_fill(~mask.cpu(), float("nan"))
        ax.add_artist(hatched(~mask.cpu()))
    low, high, colors = _scale(limit, largest)
    image = ax.imshow(values.numpy(), vmin=low, vmax=high, cmap=colors, aspect="auto")
    if largest is not None:
        ax.figure.colorbar(image, ax=ax).outline.set_visible(False)
    _write_labels(ax, rows, columns, upright)
    if numbers:
        _write_numbers(ax, values, low, high, colors.name)
    return ax


def _scale(limit: float | None, largest: float | None) -> tuple[float, float, Colormap]:
    """Return the smallest and largest values of a heat map's color scale, and its color map."""
    low, high, name = 0.0, 1.0 if largest is None else largest, "cividis"
    if limit is not None:
        low, high, name = -limit, limit, "RdBu_r"
    return low, high, plt.get_cmap(name).with_extremes(bad=COLORS["masked"])


def hatched(blocked: Tensor) -> PathPatch:
    """Combine the blocked cells of a table into one hatched shape.

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
    """Draw one line for each name, and give each a different dash pattern.

    Args:
        x: Shape ``(K,)``.
        lines: For each name, values of shape ``(K,)``.
        xlabel: Name and unit of x.
        ylabel: Name and unit of the values.
        ax: The axes to draw on. The default is a new figure.

    Raises:
        ValueError: If a line has more or fewer values than x.
    """
    for name, values in lines.items():
        if len(values) != len(x):
            raise ValueError(f"line {name!r} has {len(values)} values, but x has {len(x)}")
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
    color: str = COLORS["query"],
    ax: Axes | None = None,
) -> Axes:
    """Draw one bar for each name.

    Args:
        names: A label for every bar.
        values: Shape ``(K,)``.
        ylabel: Name and unit of the values.
        color: The color of the bars. For queries, keys or values, use their color in ``COLORS``.
        ax: The axes to draw on. The default is a new figure.

    Raises:
        ValueError: If there are more or fewer names than values.
    """
    if len(names) != len(values):
        raise ValueError(f"got {len(names)} names for {len(values)} values")
    ax = ax or plt.subplots()[1]
    ax.bar(range(len(names)), _plain(values), color=color)
    ax.set_xticks(range(len(names)), names)
    ax.set_ylabel(ylabel)
    return ax


def _plain(values: Sequence[float] | Tensor) -> Sequence[float] | np.ndarray:
    """Turn a tensor into an array for matplotlib."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def _size(rows: Sequence[str], columns: Sequence[str]) -> tuple[tuple[float, float], bool]:
    """Choose a table's width and height in inches, and whether its column labels are vertical.

    Each cell is as wide as the longest column label if the table then fits on the page.
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


def _write_labels(ax: Axes, rows: Sequence[str], columns: Sequence[str], upright: bool) -> None:
    """Write the labels of a table's rows and columns, and remove its frame."""
    ax.set_xticks(range(len(columns)), columns, rotation=90 if upright else 0)
    ax.set_yticks(range(len(rows)), rows)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _write_numbers(ax: Axes, values: Tensor, low: float, high: float, colors: str) -> None:
    """Write each value into its cell, in black on light colors and in white on dark colors."""
    for row, column in (~values.isnan()).nonzero().tolist():  # a blocked cell contains nan
        value = float(values[row, column])
        share = (value - low) / (high - low)
        signed = abs(share - 0.5) > 0.35
        dark = signed if colors == "RdBu_r" else share < 0.5
        color = "white" if dark else "black"
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=10, color=color)


def probe_picture(result: ProbeResult, *, ax: Axes | None = None) -> Axes:
    """Draw a probe's data: the influence of each token on each position, or the losses.

    Args:
        result: A result with data, such as the result of ``causality``, ``context`` or
            ``overfit_one_batch``. The scale of influence is logarithmic, from 1e-6 to 1.
        ax: The axes to draw on. The default is a new figure.

    Raises:
        ValueError: If the result has no data to draw.
    """
    data = result.data
    if isinstance(data, Tensor) and data.dim() == 2:
        rows, columns = ([str(place) for place in range(size)] for size in data.shape)
        ax = heatmap((data.clamp(1e-6, 1).log10() / 6 + 1).float(), rows, columns, ax=ax)
        ax.set(xlabel="token that changes", ylabel="position of the logits")
    elif isinstance(data, list) and data and isinstance(data[0], float):
        steps = range(1, len(data) + 1)
        ax = curves(steps, {"loss": data}, xlabel="step", ylabel="nats", ax=ax)
    else:
        raise ValueError(f"the probe {result.name!r} has nothing to draw")
    return ax
