"""Chapter 25: one encoder and three uses of its vectors."""

from colors import INK, LIT_FILL, PAPER, SOFT
from drawing import Box, arrow, centered, group, lines, page, rect, text
from token_cells import token

TITLE = "One encoder fills a gap, turns a sentence into one vector,\nand recognizes a digit"
DESC = (
    "Three columns. In each, tokens go up into a box that is called encoder, and as many vectors "
    "come out of it. On the left the tokens are f, o, a mask, t and y; the vector above the mask "
    "becomes the letter r. In the middle the tokens are two, plus, five and padding; the "
    "vectors of the three real tokens are averaged into one vector. On the right a digit is "
    "cut into four patches; the tokens are cls, which is the class token, and the four patches. "
    "The vector above the class token becomes the word seven."
)
COLUMNS, CELL, GAP = (28, 228, 440), 32, 4  # left edges; the side of a token, and what is between
WIDER = 11  # the tokens of the middle column hold longer words
TASKS, RESULT, HEADS, VECTORS, ENCODER, TOKENS, BELOW = 94, 124, 166, 202, 256, 322, 372
LOOK = dict(fill=LIT_FILL, stroke=INK, width=2.2)
STROKES = ((1, 1, 1, 1), (0, 0, 0, 1), (0, 0, 1, 0), (0, 1, 0, 0))  # a seven of 4 × 4 pixels


def places(x: float, y: float, count: int, wide: float, high: float) -> list[Box]:
    """Return the boxes for the tokens of a column or for their vectors."""
    return [Box(x + (wide + GAP) * i, y, wide, high) for i in range(count)]


def stack(
    x: float, words: list[str], head: str, result: str, lit: list[int], wide: float = CELL
) -> str:
    """Draw tokens, the encoder, its vectors, and the result of the highlighted vectors."""
    below = places(x, TOKENS, len(words), wide, CELL)
    above = places(x, VECTORS, len(words), wide, 24)
    encoder = Box(x - 6, ENCODER, (wide + GAP) * len(words) - GAP + 12, 36)
    middle = sum(above[i].cx for i in lit) / len(lit)
    looks = [LOOK if i in lit else dict(fill=PAPER, stroke=SOFT) for i in range(len(words))]
    return group(
        rect(encoder, fill=PAPER, stroke=INK, width=1.6, radius=9),
        centered(encoder.cx, encoder.cy, "encoder", bold=True),
        *(arrow([(box.cx, TOKENS - 2), (box.cx, encoder.bottom + 2)]) for box in below),
        *(arrow([(box.cx, ENCODER - 2), (box.cx, VECTORS + 26)]) for box in above),
        *(rect(box, radius=2, **how) for box, how in zip(above, looks, strict=True)),
        *(token(box, word) for box, word in zip(below, words, strict=True)),
        *(arrow([(above[i].cx, VECTORS - 2), (middle, HEADS + 12)]) for i in lit),
        centered(middle, HEADS, head),
        arrow([(middle, HEADS - 13), (middle, RESULT + 20)]),
        centered(middle, RESULT + 6, result, bold=True, size=16),
    )


def image(x: float, y: float) -> str:
    """Draw a digit of 4 × 4 pixels, cut into four patches."""
    parts = []
    for row, line in enumerate(STROKES):
        for column, ink in enumerate(line):
            left = x + 13 * column + 4 * (column // 2)
            top = y + 13 * row + 4 * (row // 2)
            fill = INK if ink else PAPER
            parts.append(rect(Box(left, top, 13, 13), fill=fill, stroke=SOFT, radius=0))
    return group(*parts)


def draw() -> str:
    """Draw the three columns."""
    gap, pool, picture = COLUMNS
    return page(
        TITLE,
        DESC,
        432,
        stack(gap, ["f", "o", "▢", "t", "y"], "token head", "r", [2]),
        stack(
            pool, ["two", "plus", "five", "[pad]"], "mean", "one vector", [0, 1, 2], CELL + WIDER
        ),
        stack(picture, ["cls", "1", "2", "3", "4"], "class head", "seven", [0]),
        lines(gap, BELOW + 8, "▢ is the token [mask],\nwhich hides the letter"),
        lines(pool, BELOW + 8, "the mean leaves out\nthe padding"),
        image(picture + 40, BELOW - 10),
        lines(picture + 104, BELOW + 8, "four patches\nof a digit"),
        text(gap, TASKS, "fill a gap", bold=True),
        text(pool, TASKS, "compare sentences", bold=True),
        text(picture, TASKS, "recognize an image", bold=True),
    )
