"""Chapter 01: the formula of attention as matrices, with their shapes."""

from math import exp, sqrt

from colors import BOX_FILL, INK, KEY, QUERY, VALUE, shade, tint
from drawing import Box, arrow, centered, group, lines, page, rect, text
from token_cells import cell, heat

TITLE = "Every query has one row in the scores, in the weights,\nand in the output"
Q = [[2.0, 0.0, 1.0], [0.0, 1.0, -1.0]]
K = [[1.0, 0.0, 0.5], [-1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.5, -0.5, 1.0]]
D_V, CELL, CENTRE = 2, 17, 152
GAP, STEP = 24, 80  # px for a sign between two matrices, and for the softmax


def weights() -> list[list[float]]:
    """Return the softmax of each row of the scaled scores."""
    rows = []
    for q in Q:
        powers = [exp(sum(a * b for a, b in zip(q, k, strict=True)) / sqrt(len(q))) for k in K]
        rows.append([power / sum(powers) for power in powers])
    return rows


def matrix(x: float, rows: int, columns: int, name: str, shape: str, color: str | None) -> str:
    """Draw a matrix of empty cells with its name above and its shape below."""
    fill = tint(color) if color else BOX_FILL
    top = CENTRE - rows * CELL / 2
    middle = x + columns * CELL / 2
    return group(
        *(
            cell(Box(x + j * CELL, top + i * CELL, CELL, CELL), fill=fill, stroke=color or INK)
            for i in range(rows)
            for j in range(columns)
        ),
        text(middle, top - 12, name, anchor="middle", bold=True, color=shade(color or INK)),
        text(middle, top + rows * CELL + 22, shape, anchor="middle"),
    )


def first_row(x: float, columns: int) -> str:
    """Draw a thick frame around the first row of a matrix that has a row for each query."""
    row = Box(x, CENTRE - len(Q) * CELL / 2, columns * CELL, CELL)
    return rect(row, fill="none", stroke=INK, width=3, radius=0)


def draw() -> str:
    """Draw Q K^T, its softmax, and the product with V, from left to right."""
    T, S, d_k = len(Q), len(K), len(Q[0])
    q = 20
    k = q + d_k * CELL + GAP
    scores = k + S * CELL + GAP
    shares = scores + S * CELL + STEP
    v = shares + S * CELL + GAP
    out = v + D_V * CELL + GAP
    signs = {k: "×", scores: "=", v: "×", out: "="}
    return page(
        TITLE,
        "From left to right: Q, with T rows of d_k numbers, times K transposed gives scores with T "
        "rows and S columns. They are divided by the root of d_k, and softmax makes the weights. "
        "The weights times V give the output, T rows of d_v numbers. One row is framed throughout.",
        278,
        matrix(q, T, d_k, "Q", "(T, d_k)", QUERY),
        matrix(k, d_k, S, "Kᵀ", "(d_k, S)", KEY),
        matrix(scores, T, S, "scores", "(T, S)", None),
        matrix(shares, T, S, "weights", "(T, S)", None),
        heat(shares, CENTRE - T * CELL / 2, weights(), CELL),
        matrix(v, S, D_V, "V", "(S, d_v)", VALUE),
        matrix(out, T, D_V, "output", "(T, d_v)", VALUE),
        *(centered(x - GAP / 2, CENTRE, sign, size=18) for x, sign in signs.items()),
        arrow([(scores + S * CELL + 8, CENTRE), (shares - 8, CENTRE)], width=2.2),
        centered(shares - STEP / 2, CENTRE - 34, "÷ √d_k"),
        centered(shares - STEP / 2, CENTRE - 15, "softmax"),
        *(first_row(x, n) for x, n in ((q, d_k), (scores, S), (shares, S), (out, D_V))),
        lines(
            20,
            240,
            "Framed: one query. Bright: a large weight.\nEvery row of weights adds up to 1.",
        ),
    )
