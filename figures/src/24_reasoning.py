"""Chapter 24: our program stops the model, and the calculator writes the result."""

from colors import INK, KEY, LIT_FILL, PAPER, SOFT, VALUE, shade
from drawing import Box, arrow, centered, group, lines, page, rect, text

TITLE = (
    "The model asks, the calculator answers, and the\nmodel reads the answer like any other token"
)
DESC = (
    "A row of tokens. The prompt says: add 52 to 55. The model writes calc 52 + 55 =. There, our "
    "program stops it, the calculator writes 107, and the model goes on: total 107."
)
LEFT, TALL, GAP = 20, 40, 6
PROMPT = ("[user]", "add", "52", "to", "55")
CALL = ("<calc>", "52", "+", "55", "=")
AFTER = ("total", "107", "[end]")
ROW, TOP = 178, 96  # the top of the answer, and of the prompt


def wide(word: str) -> float:
    """Return the width of a token."""
    return 22 + 9 * len(word)


def row(words: tuple[str, ...], x: float, y: float, *, stroke: str = INK, fill: str = PAPER) -> str:
    """Draw tokens from left to right."""
    drawn = []
    for word in words:
        box = Box(x, y, wide(word), TALL)
        drawn.append(
            group(
                rect(box, fill=fill, stroke=stroke, width=1.6, radius=7),
                centered(box.cx, box.cy, word),
            )
        )
        x = box.right + GAP
    return group(*drawn)


def span(words: tuple[str, ...]) -> float:
    """Return the width of a row of tokens, with the gap after it."""
    return sum(wide(word) + GAP for word in words)


def draw() -> str:
    """Draw the prompt, the call, the result and the rest of the answer."""
    result = LEFT + span(CALL)
    after = result + span(("107",))
    middle, under = result + wide("107") / 2, ROW + TALL + 62
    return page(
        TITLE,
        DESC,
        330,
        text(LEFT, TOP - 10, "the user"),
        row(PROMPT, LEFT, TOP, stroke=SOFT),
        text(LEFT, ROW - 10, "the model"),
        row(CALL, LEFT, ROW, stroke=shade(KEY)),
        row(("107",), result, ROW, stroke=shade(VALUE), fill=LIT_FILL),
        text(after, ROW - 10, "the model again"),
        row(AFTER, after, ROW, stroke=shade(KEY)),
        arrow([(result - 24, ROW + TALL + 4), (result - 24, under - GAP)], color=KEY, width=2),
        arrow([(middle, under - 2), (middle, ROW + TALL + GAP)], color=VALUE, width=2),
        rect(Box(result - 120, under, 176, TALL), fill=PAPER, stroke=INK, width=1.6, radius=7),
        centered(result - 32, under + TALL / 2, "calculator: 52 + 55"),
        lines(result + 68, under + 17, "At the =, our program\nstops the model."),
    )
