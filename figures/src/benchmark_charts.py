"""Charts of the training, attention and decoding benchmarks, compared with torch."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colors import INK, KEY, LINE, PAPER, QUERY, SOFT, VALUE, mix, shade, tint
from drawing import Box, circle, page, path, rect, strokes, text

RECORD = Path(__file__).resolve().parents[2] / "benchmarks" / "bench.json"
PARTS = ("training", "attention", "decoding")  # the parts of the record that are drawn
SIZES = {"small": QUERY, "base": KEY}
CHANGES = {  # in training, one after another; the last one undoes a change, and compiles
    "like for like": "the same dropout",
    "dropout as the paper": "the paper's dropout, fused Adam",
    "loss in chunks": "and the loss in chunks",
    "bfloat16": "and bfloat16",
    "dropout as the paper, compiled": "paper's dropout, compiled",
}
ATTENTION = {  # label, color and dash of each line
    "past only, is_causal, fused": ("fused, is_causal", VALUE, ""),
    "the fused kernel": ("fused kernel", QUERY, ""),
    "all heads at once, compiled": ("by hand, compiled", SOFT, "2 3"),
    "all heads at once": ("by hand", KEY, ""),
    "the fused kernel, dropout": ("fused, with dropout", QUERY, "6 4"),
}
DECODING = {
    "all": ("all logits in torch", QUERY, ""),
    "last": ("the last ones only", KEY, "6 4"),
}
TOP, BETWEEN = 92, 44  # of the first panel, and from one panel to the next
LEFT, WIDE = 260, 182  # of the bars
BAR, STEP, APART = 13, 17, 8  # height of a bar, from one to the next, and from group to group
AXIS, ACROSS, TALL = 58, 270, 150  # left edge of a chart, its width, its height
LABELS, LABEL = AXIS + ACROSS + 10, 17  # left edge of a chart's labels; the height of one
GRID = mix(LINE, PAPER, 0.7)
ROUND = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

FAST = "times as fast as torch"
DESC = (
    "Three charts of the speed relative to torch.nn. Bars show a training step of two model sizes "
    "after one change after another. Lines show several ways to compute attention, by length, and "
    "decoding with the KV cache, by the number of new tokens. Error bars show the ranges."
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One line of a chart: its style, and a ratio with its range for each x."""

    style: tuple[str, str, str]
    points: dict[int, dict[str, float]]

    @property
    def last(self) -> float:
        """Return the ratio at the right end of the line."""
        return self.points[max(self.points)]["median"]


@dataclass(frozen=True)
class Scale:
    """The scale of a chart, with its top, its ticks from left to right, and its limits."""

    top: float
    ticks: Sequence[int]
    floor: float
    roof: float

    def x(self, tick: float) -> float:
        """Return the x coordinate of a number."""
        return AXIS + 16 + (ACROSS - 32) * _fraction(tick, self.ticks[0], self.ticks[-1])

    def y(self, ratio: float) -> float:
        """Return the y coordinate of a ratio."""
        return self.top + TALL * (1 - _fraction(ratio, self.floor, self.roof))


def draw() -> str:
    """Draw the record of ``make bench``."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = {entry["part"]: entry["rows"] for entry in record}
    bars, below = _bars(rows["training"], TOP)
    attention = _lines(rows["attention"], ATTENTION, "length")
    decoding = _lines(rows["decoding"], DECODING, "new_tokens")
    first, second = below + BETWEEN, below + 2 * BETWEEN + TALL + 40
    charts = _chart("Attention alone, forward and backward", "length", attention, first)
    charts += _chart("Decoding with the KV cache", "new tokens", decoding, second)
    bottom = second + TALL + 64
    machines = dict.fromkeys(entry["machine"] for entry in record if entry["part"] in PARTS)
    notes = [text(20, bottom + 18 * n, name, color=LINE) for n, name in enumerate(machines)]
    return page(_title(rows), DESC, bottom + 18 * len(machines), *bars, *charts, *notes)


def _title(rows: dict[str, Sequence[Row]]) -> str:
    """State the result of the three panels."""
    ratios = {(row["table"], row["name"]): row["ratio"]["median"] for row in rows["training"]}
    alike = [ratio for (_, name), ratio in ratios.items() if name == "like for like"]
    best = max(ratios.values())
    cached = max(row["ratio"]["median"] for row in rows["decoding"])
    return (
        f"With the same dropout: at least {min(alike):.2f} of torch's speed.\n"
        f"With our changes: up to {best:.1f} in training, {cached:.0f} in decoding"
    )


def _bars(rows: Sequence[Row], top: float) -> tuple[list[str], float]:
    """Draw a bar for each change and each size; return the bars and the lower end of the panel."""
    all_ratios = {
        (row["table"].rpartition(" ")[2], row["name"]): row["ratio"]
        for row in rows
        if row["name"] in CHANGES
    }
    scale = WIDE / max(1.0, *(ratio["max"] for ratio in all_ratios.values()))
    y = top + 18
    parts = [text(20, top, f"A training step, change after change: {FAST}", bold=True)]
    for change, label in CHANGES.items():
        ratios = {size: all_ratios[size, change] for size in SIZES if (size, change) in all_ratios}
        if ratios:
            parts.append(text(20, y + STEP * len(ratios) / 2 + 4, label))
        for size, ratio in ratios.items():
            parts += _bar(size, ratio, scale, y)
            y += STEP
        y += APART if ratios else 0
    one = LEFT + scale
    parts.append(path([(one, top + 10), (one, y)], color=INK, dash="3 3"))
    parts.append(text(one, y + 16, "1.0", anchor="middle"))
    return parts, y + 16


def _bar(size: str, ratio: dict[str, float], scale: float, y: float) -> list[str]:
    """Draw the bar of a ratio, its range as a line, and its number with the size's name."""
    low, middle, high = (LEFT + scale * ratio[name] for name in ("min", "median", "max"))
    color, center = SIZES[size], y + BAR / 2
    return [
        rect(Box(LEFT, y, middle - LEFT, BAR), fill=tint(color), stroke=color, radius=0),
        strokes([[(low, center), (high, center)]], color=shade(color), width=2),
        text(max(middle, high) + 6, y + BAR - 1, f"{ratio['median']:.2f} {size}"),
    ]


def _lines(rows: Sequence[Row], styles: dict[str, tuple], across: str) -> list[Line]:
    """Return a line for each style that has rows; ``across`` is the key of their x."""
    lines = []
    for name, style in styles.items():
        points = {row[across]: row["ratio"] for row in rows if row["name"] == name}
        if points:
            lines.append(Line(style, points))
    return lines


def _chart(title: str, across: str, lines: Sequence[Line], top: float) -> list[str]:
    """Draw lines on logarithmic axes, with labels at their right ends."""
    scale = _scale(lines, top + 14)
    parts = [text(20, top, f"{title}: {FAST}", bold=True)]
    for tick in (tick for tick in ROUND if scale.floor <= tick <= scale.roof):
        dash, color = ("3 3", INK) if tick == 1 else ("", GRID)
        grid_line = [(AXIS, scale.y(tick)), (AXIS + ACROSS, scale.y(tick))]
        parts.append(path(grid_line, color=color, width=1.2, dash=dash))
        parts.append(text(AXIS - 8, scale.y(tick) + 5, f"{tick:g}", anchor="end"))
    below = top + TALL + 34
    parts += [text(scale.x(x), below, f"{x:,}", anchor="middle") for x in scale.ticks]
    parts.append(text(LABELS, below, across))
    heights = _labels_apart([scale.y(line.last) + 5 for line in lines], below - LABEL)
    for line, y in zip(lines, heights, strict=True):
        name, color, _ = line.style
        label = f"{line.last:.{2 if line.last < 10 else 1}f} {name}"
        parts += [*_curve(line, scale), text(LABELS, y, label, color=shade(color))]
    return parts


def _curve(line: Line, scale: Scale) -> list[str]:
    """Draw one line, a dot for every median, and a stroke for every range."""
    _, color, dash = line.style
    dots = [(scale.x(x), scale.y(ratio["median"])) for x, ratio in sorted(line.points.items())]
    ranges = [
        [(scale.x(x), scale.y(ratio["min"])), (scale.x(x), scale.y(ratio["max"]))]
        for x, ratio in line.points.items()
    ]
    curve = [strokes(ranges, color=color), path(dots, color=color, width=2, dash=dash)]
    return curve + [circle(*dot, 3, fill=color, stroke=color) for dot in dots]


def _scale(lines: Sequence[Line], top: float) -> Scale:
    """Choose limits that include all ranges and 1."""
    ratios = [ratio for line in lines for ratio in line.points.values()]
    low, high = min(ratio["min"] for ratio in ratios), max(ratio["max"] for ratio in ratios)
    floor = max(tick for tick in ROUND if tick <= min(low, 1))
    roof = min(tick for tick in ROUND if tick >= max(high, 1))
    return Scale(top, sorted({x for line in lines for x in line.points}), floor, roof)


def _fraction(value: float, low: float, high: float) -> float:
    """Return a value's position between low (0) and high (1), on a logarithmic scale."""
    return math.log(value / low) / math.log(high / low) if high > low else 0.5


def _labels_apart(wanted: Sequence[float], lowest: float) -> list[float]:
    """Move labels until they do not overlap and none is below the lowest line; keep their order."""
    order = sorted(range(len(wanted)), key=lambda label: wanted[label])
    heights: dict[int, float] = {}
    for number, label in enumerate(order):
        room = LABEL * (len(order) - 1 - number)  # for the labels below
        above = [y + LABEL for y in heights.values()]
        heights[label] = max([min(wanted[label], lowest - room), *above])
    return [heights[label] for label in range(len(wanted))]
