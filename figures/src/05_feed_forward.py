"""Chapter 05: the feed-forward network, the same at every position."""

from colors import RDBU_R, on_map
from drawing import Box, arrow, group, page, polygon, text
from model_parts import feed_forward, hexagon, look
from token_cells import cell, number, token, vector

TITLE = "At each position, the same network projects up to d_ff\nand back down to d_model"
DESC = (
    "Inside a wide hexagon the 4 numbers of the token three become 8, the negative ones turn "
    "to 0, and 4 numbers come out. Next to it, hundred, forty and five each go through "
    "the same small hexagon; no line joins them."
)
X = [1.0, -0.5, 0.5, 2.0]
D_MODEL, D_FF, CELL = len(X), 8, 37
W1 = [
    [1.0, -1.0, 0.5, 0.0, -0.5, 1.0, 0.0, -1.0],
    [0.5, 1.0, -1.0, 0.5, 0.0, -0.5, 1.0, 0.0],
    [0.0, 0.5, 1.0, -1.0, 1.0, 0.0, -0.5, 1.0],
    [0.5, -0.5, 0.5, 1.0, -1.0, -0.5, 0.5, -0.5],
]
W2 = [[0.5 * W1[j][i] for j in range(D_MODEL)] for i in range(D_FF)]
WIDE = Box(10, 140, 340, 236)
OUT_Y, RELU_Y, UP_Y, IN_Y = 92, 192, 292, 392


def times(row: list[float], matrix: list[list[float]]) -> list[float]:
    """Multiply a row by a matrix."""
    return [sum(a * b for a, b in zip(row, col, strict=True)) for col in zip(*matrix, strict=True)]


def numbers(y: float, values: list[float]) -> str:
    """Draw a vector in the middle of the wide network, with signed values in color."""
    x = WIDE.cx - CELL * len(values) / 2
    return group(
        *(
            cell(
                Box(x + CELL * i, y, CELL, 32),
                number(value, 1),
                fill=on_map(0.5 + value / 8, RDBU_R),
            )
            for i, value in enumerate(values)
        )
    )


def stages() -> tuple[list[float], list[float], list[float]]:
    """Return the numbers projected up to d_ff, the numbers after ReLU, and the output."""
    lifted = times(X, W1)
    kept = [max(value, 0.0) for value in lifted]
    return lifted, kept, times(kept, W2)


def inside() -> str:
    """Draw one position as it goes up to d_ff, through ReLU, and down to d_model."""
    lifted, kept, output = stages()
    mid = WIDE.cx
    return group(
        polygon(hexagon(WIDE, 0.11), **look("05", None)),
        arrow([(mid, IN_Y), (mid, UP_Y + 32)]),
        arrow([(mid, UP_Y), (mid, RELU_Y + 32)]),
        arrow([(mid, RELU_Y), (mid, OUT_Y + 32)]),
        *(numbers(y, row) for y, row in ((IN_Y, X), (UP_Y, lifted), (RELU_Y, kept))),
        numbers(OUT_Y, output),
        text(mid - 12, UP_Y - 29, "Feed forward", anchor="end", bold=True),
        text(mid + 12, UP_Y + 60, f"up: {D_MODEL} to {D_FF}"),
        text(mid + 12, UP_Y - 29, "ReLU: no negatives"),
        text(mid + 12, RELU_Y - 20, f"down: {D_FF} to {D_MODEL}"),
    )


def position(x: float, word: str) -> str:
    """Draw the same network at another position, small and without its numbers."""
    shape = Box(x - 23, WIDE.cy - 28, 46, 56)
    half = 5 + 4 * len(word)
    ends = (Box(x - 22, IN_Y + 10, 44, 11), Box(x - 22, OUT_Y + 10, 44, 11))
    return group(
        arrow([(x, ends[0].y), (x, shape.bottom)]),
        arrow([(x, shape.y), (x, ends[1].bottom)]),
        feed_forward(shape, words=""),
        *(vector(end, [0] * D_MODEL, numbers=False) for end in ends),
        token(Box(x - half, IN_Y + 44, 2 * half, 28), word),
    )


def draw() -> str:
    """Draw four positions, the first one large, each with its own copy of the same network."""
    return page(
        TITLE,
        DESC,
        IN_Y + 92,
        inside(),
        token(Box(WIDE.cx - 34, IN_Y + 44, 68, 28), "three"),
        *(position(x, word) for x, word in ((390, "hundred"), (453, "forty"), (508, "five"))),
        text(448, OUT_Y - 8, "the same weights again", anchor="middle"),
    )
