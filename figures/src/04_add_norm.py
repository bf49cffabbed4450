"""Chapter 04: what a residual connection preserves, and what the norm does to the sum."""

from math import sqrt

from colors import INK, LINE, PAPER, SOFT
from drawing import Box, arrow, centered, group, page, path, rect, text
from model_parts import badge, look, plus

TITLE = (
    "Add keeps the old vector and adds the change to it;\n"
    "norm brings every vector back to one scale"
)
OLD = [2.0, 0.6, 3.4, 1.2, 2.6, 0.2]
CHANGE = [0.8, -0.5, 1.4, 0.6, -0.9, -0.6]
CENTRE, SIDE = 128, 20  # the main path, and the path around the sub-layer
NAME_X, BARS_X, BARS_W, UNIT = 236, 320, 112, 13.0  # one unit of a number is 13 px high
OUT_Y, NORM_Y, SUM_Y, SUB_Y, IN_Y = 122, 202, 264, 348, 428


def total() -> list[float]:
    """Return the old vector plus the change."""
    return [a + b for a, b in zip(OLD, CHANGE, strict=True)]


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    """Return the mean and standard deviation of the features at one position."""
    mean = sum(values) / len(values)
    return mean, sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def normed() -> list[float]:
    """Return the sum, shifted to mean 0 and scaled to standard deviation 1."""
    mean, deviation = mean_and_deviation(total())
    return [(value - mean) / deviation for value in total()]


def bars(y: float, values: list[float], name: str) -> str:
    """Draw the numbers of a vector as bars around zero, and print their spread."""
    w = BARS_W / len(values)
    mean, deviation = (f"{number + 0.0:.1f}" for number in mean_and_deviation(values))
    boxes = (
        Box(BARS_X + i * w + 3, y - max(value, 0) * UNIT, w - 6, abs(value) * UNIT)
        for i, value in enumerate(values)
    )
    return group(
        *(rect(box, fill=LINE, stroke=None, radius=0) for box in boxes),
        path([(BARS_X - 4, y), (BARS_X + BARS_W + 4, y)], color=INK, width=1),
        text(NAME_X, y + 5, name),
        text(BARS_X + BARS_W + 12, y - 5, f"mean {mean}"),
        text(BARS_X + BARS_W + 12, y + 14, f"spread {deviation}"),
    )


def flow() -> str:
    """Draw the path of a vector through a sub-layer, around it, and through Add & Norm."""
    strip = Box(32, NORM_Y - 48, 192, SUM_Y - NORM_Y + 68)
    norm, sub = Box(CENTRE - 60, NORM_Y - 15, 120, 30), Box(CENTRE - 60, SUB_Y - 19, 120, 38)
    fork = IN_Y - 36
    return group(
        rect(strip, **look("04", None)),
        badge(strip.right - 18, strip.y + 19, "04"),
        text(strip.x + 8, strip.y + 24, "Add & norm"),
        rect(norm, fill=PAPER),
        centered(norm.cx, norm.cy, "LayerNorm"),
        rect(sub, fill=PAPER),
        centered(sub.cx, sub.cy, "any sub-layer"),
        path([(CENTRE, IN_Y), (CENTRE, fork)]),
        arrow([(CENTRE, fork), (CENTRE, sub.bottom)]),
        arrow([(CENTRE, sub.y), (CENTRE, SUM_Y + 9)]),
        arrow([(CENTRE, SUM_Y - 9), (CENTRE, norm.bottom)]),
        arrow([(CENTRE, norm.y), (CENTRE, OUT_Y)]),
        arrow([(CENTRE, fork), (SIDE, fork), (SIDE, SUM_Y), (CENTRE - 9, SUM_Y)], width=2.6),
        plus(CENTRE, SUM_Y),
    )


def guide(y: float, x: float) -> str:
    """Draw the thin line that leads from a point on the path to the numbers there."""
    return path([(x, y), (NAME_X - 6, y)], color=SOFT, dash="2 4", width=1.2)


def draw() -> str:
    """Draw the numbers of one vector before, inside and after Add & Norm."""
    mean, deviation = mean_and_deviation(total())
    return page(
        TITLE,
        "A vector goes through a sub-layer and, on a thick line, around it. Bars show the old "
        f"vector, the change, their sum with mean {mean:.1f} and spread {deviation:.1f}, and the "
        "output of LayerNorm with the same pattern, mean 0 and spread 1.",
        480,
        flow(),
        *(
            group(guide(y, x), bars(y, values, name))
            for y, x, values, name in (
                (OUT_Y + 8, CENTRE + 10, normed(), "output"),
                (SUM_Y, CENTRE + 12, total(), "sum"),
                (SUB_Y, CENTRE + 64, CHANGE, "change"),
                (IN_Y, CENTRE + 6, OLD, "old vector"),
            )
        ),
    )
