"""Chapter 20: one sentence about the picture."""

from drawing import Box, arrow, centred, group, page, rect

TITLE = "The title of a picture is its message in one sentence"
DESC = (
    "Two boxes with an arrow from the left one to the right one. Describe everything here that a "
    "reader would see, because some readers only hear this text."
)
LEFT, RIGHT = Box(80, 90, 180, 60), Box(380, 90, 180, 60)


def draw() -> str:
    """Draw what goes in, what comes out, and an arrow between them."""
    return page(
        TITLE,
        DESC,
        180,
        group(rect(LEFT), centred(LEFT.cx, LEFT.cy, "(3, 4)")),
        group(rect(RIGHT), centred(RIGHT.cx, RIGHT.cy, "(0.6, 0.8)")),
        arrow([(LEFT.right, LEFT.cy), (RIGHT.x, RIGHT.cy)]),
    )
