"""Chapter 04: the gradient of three residual connections is a sum over eight paths."""

from itertools import combinations
from math import prod

from colors import INK, LINE
from drawing import Box, centered, group, page, path, rect, text

TITLE = (
    "A path goes through each sub-layer or skips it, so\n"
    "three give eight paths; the gradient is their sum"
)
PLACES = (74, 144, 214)  # px: the middle of each sub-layer
FIRST, PITCH = 118, 34  # px: the first row, and the distance between rows
SLOPES = {0.1: 440, -0.5: 518}  # the slope of every sub-layer, and its column in px
MINUS = "−"


def signed(value: float) -> str:
    """Format a number with a minus sign that is as wide as a plus sign."""
    return f"{value:g}".replace("-", MINUS)


def row(y: float, passed: tuple[int, ...]) -> str:
    """Draw one path: a box for each sub-layer on it, and its slope on the right."""
    boxes = [Box(PLACES[i] - 24, y - 12, 48, 24) for i in passed]
    subscripts = "₁₂₃"
    names = [f"f{subscripts[i]}" for i in passed]
    return group(
        path([(20, y), (262, y)], color=INK if not passed else LINE, width=4 if not passed else 2),
        *(
            group(rect(box), centered(box.cx, box.cy, name))
            for box, name in zip(boxes, names, strict=True)
        ),
        text(274, y + 5, " · ".join(f"{name}′" for name in names) or "1"),
        *(
            text(x, y + 5, signed(round(prod([slope] * len(passed)), 3)), anchor="end")
            for slope, x in SLOPES.items()
        ),
    )


def draw() -> str:
    """Draw the eight paths, and add up their slopes for two kinds of sub-layers."""
    paths = [chosen for k in range(4) for chosen in combinations(range(3), k)]
    bottom = FIRST + len(paths) * PITCH
    return page(
        TITLE,
        "Eight lines from left to right. The first goes through no sub-layer, three go through "
        "one, three through two, and the last through all three. The slope of each path is on its "
        "right, and the sums below: 1.331 if every slope is 0.1, and 0.125 if every slope is "
        "minus 0.5.",
        bottom + 34,
        text(274, 88, "slope of path"),
        *(
            text(x, 88, f"f′ = {signed(slope)}", anchor="end", bold=True)
            for slope, x in SLOPES.items()
        ),
        *(row(FIRST + i * PITCH, chosen) for i, chosen in enumerate(paths)),
        path([(274, bottom - 14), (518, bottom - 14)]),
        text(274, bottom + 8, "sum", bold=True),
        *(
            text(x, bottom + 8, signed(round((1 + slope) ** 3, 3)), anchor="end", bold=True)
            for slope, x in SLOPES.items()
        ),
    )
