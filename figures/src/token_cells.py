"""Drawings that consist of cells: vectors, tokens and maps of weights."""

from math import ceil, floor

from colors import (
    BOX_FILL,
    CIVIDIS,
    HATCH,
    INK,
    LINE,
    LIT_FILL,
    MASKED,
    PAPER,
    ink_on,
    on_map,
    tint,
)
from drawing import Box, centered, group, rect, strokes

PITCH = 8  # horizontal distance in px between hatch lines, as in the plots


def number(value: float, decimals: int = 2) -> str:
    """Format a number: rounded, without trailing zeros, and with a real minus sign."""
    return f"{round(value, decimals) + 0.0:g}".replace("-", "−")


def cell(box: Box, words: str = "", *, fill: str = PAPER, stroke: str = LINE) -> str:
    """Draw one cell of a vector or table, with a word or number in it."""
    return group(
        rect(box, fill=fill, stroke=stroke, width=1, radius=0),
        centered(box.cx, box.cy, words, color=ink_on(fill)) if words else "",
    )


def blocked(box: Box, *, width: float = 1.2) -> str:
    """Draw a blocked cell, gray and hatched, so that it is visible without color.

    Points with the same x + y are on the same line, so the hatch continues across cells.
    """
    first = PITCH * (floor((box.x + box.y) / PITCH) + 1)
    lines = []
    for both in range(first, ceil(box.right + box.bottom), PITCH):  # x + y on this line
        left, right = max(box.x, both - box.bottom), min(box.right, both - box.y)
        lines.append([(left, both - left), (right, both - right)])
    return group(
        rect(box, fill=MASKED, stroke=None, radius=0),
        strokes(lines, color=HATCH, width=width),
        rect(box, fill="none", stroke=LINE, width=1, radius=0),
    )


def vector(box: Box, values: list, *, color: str = LINE, numbers: bool = True) -> str:
    """Draw a vector as a row of cells in the color of its role."""
    w = box.w / len(values)
    fill = BOX_FILL if color == LINE else tint(color)
    return group(
        *(
            cell(
                Box(box.x + i * w, box.y, w, box.h),
                number(value) if numbers else "",
                fill=fill,
                stroke=color,
            )
            for i, value in enumerate(values)
        )
    )


def column(box: Box, count: int) -> str:
    """Draw a vector as a column of empty cells."""
    h = box.h / count
    return group(*(cell(Box(box.x, box.y + i * h, box.w, h), fill=BOX_FILL) for i in range(count)))


def token(box: Box, word: str, *, lit: bool = False) -> str:
    """Draw a token as a word in a rounded frame; ``lit`` highlights it."""
    fill, width = (LIT_FILL, 2.2) if lit else (PAPER, 1)
    return group(
        rect(box, fill=fill, stroke=INK, width=width, radius=7), centered(box.cx, box.cy, word)
    )


def heat(x: float, y: float, weights: list[list[float]], size: float) -> str:
    """Draw weights between 0 and 1 as a map, with queries down and keys across."""
    return group(
        *(
            cell(
                Box(x + j * size, y + i * size, size, size),
                fill=on_map(weight, CIVIDIS),
                stroke=PAPER,
            )
            for i, row in enumerate(weights)
            for j, weight in enumerate(row)
        )
    )
