"""Chapter 00: the map of the architecture."""

from architecture import FRAME, LEFT, LOGITS, RIGHT, TOKENS_Y, architecture
from colors import KEY, QUERY, VALUE, shade
from drawing import Box, arrow, group, move, page, text
from model_parts import badge, mask_grid
from token_cells import token

TITLE = "An encoder reads, a decoder writes, and at every step\nattention decides what to look at"
DESC = (
    "The Transformer from bottom to top: on the left, source tokens go through embedding, "
    "positional encoding and N encoder layers and become memory; on the right, the target so "
    "far goes through N decoder layers, which also look at memory, and becomes logits, one for "
    "every token that may come next. Every part carries the number of the chapter that builds it."
)
UP = 46  # px that the frame moves towards the title
SOURCE, TARGET = Box(LEFT - 95, TOKENS_Y, 190, 30), Box(RIGHT - 95, TOKENS_Y, 190, 30)


def ends() -> str:
    """Draw the inputs at the bottom and the output at the top."""
    return group(
        arrow([(RIGHT, LOGITS.y), (RIGHT, FRAME.y - 18)]),
        text(RIGHT - 14, FRAME.y - 10, "logits: which token is next?", anchor="end"),
        token(SOURCE, "three hundred forty-five"),
        token(TARGET, "dreihundertfünf"),
        text(SOURCE.cx, SOURCE.bottom + 19, "source", anchor="middle"),
        text(TARGET.cx, TARGET.bottom + 19, "target so far", anchor="middle"),
    )


def legend(x: float, y: float) -> str:
    """Explain the symbols of the map."""
    roles = (("Q", QUERY, "query: what a position asks for"),)
    roles += (("K", KEY, "key: what a position offers"),)
    roles += (("V", VALUE, "value: what a position passes on"),)
    return group(
        badge(x + 12, y, "05"),
        text(x + 30, y + 5, "the chapter that builds the part"),
        mask_grid(x - 1, y + 18, "both"),
        text(x + 30, y + 36, "mask: hatched, may not look"),
        *(
            group(
                text(x + 12, y + 67 + 26 * i, name, bold=True, anchor="middle", color=shade(role)),
                text(x + 30, y + 67 + 26 * i, words),
            )
            for i, (name, role, words) in enumerate(roles)
        ),
    )


def draw(lit: str | None = None) -> str:
    """Draw every part of the model with the number of the chapter that builds it.

    Args:
        lit: The two digits of the chapter whose parts are highlighted, if any.
    """
    return page(
        TITLE,
        DESC,
        SOURCE.bottom + 36 - UP,
        move(0, -UP, architecture(lit), legend(18, 196), ends()),
    )
