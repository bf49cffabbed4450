"""Chapter 01: attention as a weighted average of values, with every number computed."""

from math import exp, sqrt

from colors import INK, KEY, QUERY, VALUE, mix, shade
from drawing import Box, arrow, group, lines, page, polygon, rect, text
from token_cells import number, vector

TITLE = "Attention averages the values, weighted by how well\neach key matches the query"
SOURCE = ("three", "hundred", "forty", "five")
ASKED = [2.0, 1.0]
KEYS = [[1.0, -1.0], [-1.0, 0.5], [0.5, 1.0], [2.0, 1.0]]
VALUES = [[3.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [1.0, 3.0]]
FIRST, STEP, CELL = 206, 48, 38
KEY_X, SCORE_X, BAR_X, VALUE_X, OUT_X = 86, 202, 246, 336, 450
BAR, FLOW = 52, 22  # px that stand for a weight of 1: the length of its bar, the width of its flow


def scores() -> list[float]:
    """Return how well each key matches the query: their dot product over the root of d_k."""
    return [sum(q * k for q, k in zip(ASKED, key, strict=True)) / sqrt(len(ASKED)) for key in KEYS]


def softmax(values: list[float]) -> list[float]:
    """Return positive weights that sum to 1."""
    powers = [exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]


def weighted_average(weights: list[float]) -> list[float]:
    """Return the weighted average of the values."""
    return [sum(w * v[j] for w, v in zip(weights, VALUES, strict=True)) for j in range(2)]


def flow(start: tuple, weight: float, out: Box, before: float) -> str:
    """Draw the flow of a value to the output, as wide as its weight, below the earlier flows."""
    x, y = start
    end = out.cy + FLOW * (before + weight / 2 - 0.5)
    half = max(FLOW * weight, 0.8) / 2
    upper = [(x, y - half), (x + 12, y - half), (out.x - 12, end - half), (out.x, end - half)]
    lower = [(px, py + 2 * half) for px, py in reversed(upper)]
    return polygon(upper + lower, fill=mix(VALUE, "#FFFFFF", 0.35), stroke=None)


def row(i: int, score: float, weight: float) -> str:
    """Draw one source position: its key, score, weight and value."""
    y = FIRST + STEP * i
    bar = Box(BAR_X, y - 9, BAR * weight, 18)
    return group(
        text(KEY_X - 10, y + 5, SOURCE[i], anchor="end"),
        vector(Box(KEY_X, y - 16, 2 * CELL, 32), KEYS[i], color=KEY),
        text(SCORE_X + 18, y + 5, f"{score:.2f}".replace("-", "−"), anchor="end"),
        rect(bar, fill=INK, stroke=None, radius=0),
        text(bar.right + 6, y + 5, f"{weight:.2f}"),
        vector(Box(VALUE_X, y - 16, 2 * CELL, 32), VALUES[i], color=VALUE),
    )


def headings() -> str:
    """Name the columns, and the step that computes each from the previous one."""
    y = FIRST - 46
    return group(
        text(KEY_X + CELL, y + 14, "key", anchor="middle", bold=True, color=shade(KEY)),
        text(SCORE_X, y, "score", anchor="middle", bold=True),
        text(SCORE_X, y + 19, "q·k / √d_k", anchor="middle"),
        text(BAR_X, y, "weight", bold=True),
        text(BAR_X, y + 19, "softmax"),
        text(VALUE_X + CELL, y + 14, "value", anchor="middle", bold=True, color=shade(VALUE)),
    )


def query() -> str:
    """Draw the one query, which is compared with every key."""
    box = Box(KEY_X, 84, 2 * CELL, 32)
    return group(
        vector(box, ASKED, color=QUERY),
        text(KEY_X - 10, box.cy + 5, "query", bold=True, anchor="end", color=shade(QUERY)),
        text(box.right + 12, box.cy + 5, "of the position that will write “fünf”"),
        arrow([(box.cx, box.bottom), (box.cx, FIRST - 48)], color=QUERY, width=2.2),
    )


def draw() -> str:
    """Draw one query, four keys, and the weighted average of their values."""
    weights = softmax(scores())
    output = weighted_average(weights)
    out = Box(OUT_X, FIRST + 1.5 * STEP - 16, 2 * CELL, 32)
    terms = " + ".join(f"{w:.2f} × {number(v[0])}" for w, v in zip(weights, VALUES, strict=True))
    terms = terms.replace("× −1", "× (−1)")
    return page(
        TITLE,
        "A query of two numbers meets the keys of the four source words three, hundred, forty and "
        f"five. The scores become weights: {', '.join(f'{w:.2f}' for w in weights)}. Lines as wide "
        "as the weights lead from the four values to the output, almost all of it from five.",
        444,
        query(),
        headings(),
        *(
            flow((VALUE_X + 2 * CELL, FIRST + STEP * i), weight, out, sum(weights[:i]))
            for i, weight in enumerate(weights)
        ),
        *(row(i, *pair) for i, pair in enumerate(zip(scores(), weights, strict=True))),
        vector(out, output, color=VALUE),
        text(out.cx, out.y - 10, "output", anchor="middle", bold=True, color=shade(VALUE)),
        lines(20, 404, f"first number of the output:\n{terms} = {number(output[0])}"),
    )
