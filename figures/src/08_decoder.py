"""Chapter 08: the parts of a decoder layer, and the inputs of each part."""

from drawing import Box, arrow, centered, group, lines, page, text
from model_layers import (
    CENTRE,
    DECODER_H,
    FEED,
    LAYER_W,
    LOOK,
    LOOK_BACK,
    MEMORY_Y,
    decoder_layer,
    small_layer,
)
from token_cells import column

TITLE = (
    "A decoder layer attends to the target so far and to\n"
    "memory, then transforms each position on its own"
)
DESC = (
    "One decoder layer from bottom to top: masked self-attention over the target so far, "
    "cross-attention whose values and keys come from memory on the left and whose queries "
    "come from below, and feed forward, each followed by add and norm."
)
X, Y = 142, 106
MEMORY = Box(14, Y + MEMORY_Y - 18, 100, 36)


def encoder() -> str:
    """Draw the encoder as a small stack, with the memory vectors above it."""
    layers = [Box(10, MEMORY.bottom + 22 + 76 * i, 108, 62) for i in range(2)]
    return group(
        *(column(Box(MEMORY.x + 2 + 26 * i, MEMORY.y, 18, 36), 4) for i in range(4)),
        arrow([(MEMORY.cx, layers[0].y), (MEMORY.cx, MEMORY.bottom)]),
        arrow([(MEMORY.cx, layers[1].y), (MEMORY.cx, layers[0].bottom)]),
        *(small_layer(layer) for layer in layers),
        text(MEMORY.cx, MEMORY.y - 10, "memory", bold=True, anchor="middle"),
        text(MEMORY.cx, layers[1].bottom + 20, "encoder", anchor="middle"),
    )


def note(part: Box, name: str, words: str) -> str:
    """Write a note next to a part."""
    x, y = X + LAYER_W + 12, Y + part.cy - 14
    return group(text(x, y, name, bold=True), lines(x, y + 20, words))


def draw() -> str:
    """Draw the decoder layer, with memory on its left and notes on its right."""
    middle, lower = X + CENTRE, Y + DECODER_H
    return page(
        TITLE,
        DESC,
        lower + 62,
        encoder(),
        decoder_layer(X, Y),
        arrow([(MEMORY.right + 2, MEMORY.cy), (X, MEMORY.cy)], width=2.2),
        arrow([(middle, Y), (middle, Y - 28)]),
        arrow([(middle, lower + 26), (middle, lower)]),
        centered(middle, lower + 38, "target so far, one vector for each token"),
        note(FEED, "feed forward", "each position\non its own"),
        note(LOOK, "cross-attention", "queries from here,\nkeys and values\nfrom memory"),
        note(LOOK_BACK, "self-attention", "masked: it sees\nno later token"),
    )
