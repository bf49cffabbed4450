"""Chapter 07: the parts of an encoder layer, and a stack of encoder layers."""

from colors import SOFT
from drawing import Box, arrow, centered, group, page, path, text
from model_layers import CENTRE, ENCODER_H, LAYER_W, encoder_layer, small_layer
from token_cells import column, token

TITLE = (
    "In an encoder layer, tokens look at each other, then\n"
    "each is transformed alone. N layers compute memory"
)
DESC = (
    "Left, one encoder layer from bottom to top: multi-head attention, add and norm, feed "
    "forward, add and norm, with a path around each half. Right, N such layers turn the "
    "vectors of three, hundred, forty and five into as many vectors of memory."
)
WORDS = ("three", "hundred", "forty", "five")
LAYER_X, LAYER_Y = 9, 122
STACK_X, STACK_W, STACK_H = 269, 262, 62
TOPS = (146, 246, 330)  # upper edges of the layers: N, 2 and 1
MEMORY_Y, IN_Y, WORDS_Y = 84, 416, 460
PLACES = [STACK_X + STACK_W * (i + 0.5) / len(WORDS) for i in range(len(WORDS))]


def stream(below: float, above: float, dash: str = "") -> str:
    """Draw one arrow for each position, because a layer has as many outputs as inputs."""
    return group(*(arrow([(x, below), (x, above)], dash=dash) for x in PLACES))


def vectors(y: float) -> str:
    """Draw one vector for each position."""
    return group(*(column(Box(x - 9, y, 18, 36), 4) for x in PLACES))


def stack() -> str:
    """Draw three of the N layers between the words and memory."""
    layers = [Box(STACK_X, top, STACK_W, STACK_H) for top in TOPS]
    return group(
        vectors(MEMORY_Y),
        stream(layers[0].y, MEMORY_Y + 36),
        stream(layers[1].y, layers[0].bottom, dash="3 4"),
        stream(layers[2].y, layers[1].bottom),
        stream(IN_Y, layers[-1].bottom),
        *(small_layer(layer) for layer in layers),
        *(
            text(layers[i].x + 12, layers[i].cy + 5, name)
            for i, name in ((0, "layer N"), (1, "layer 2"), (2, "layer 1"))
        ),
        vectors(IN_Y),
        *(token(Box(x - 31.5, WORDS_Y, 63, 28), w) for x, w in zip(PLACES, WORDS, strict=True)),
    )


def zoom(y: float) -> str:
    """Draw the two lines from a small layer to its large drawing."""
    right, lower = LAYER_X + LAYER_W, LAYER_Y + ENCODER_H
    return group(
        path([(right, LAYER_Y + 10), (STACK_X, y + 8)], color=SOFT, dash="2 4"),
        path([(right, lower - 10), (STACK_X, y + STACK_H - 8)], color=SOFT, dash="2 4"),
    )


def draw() -> str:
    """Draw one large layer and, next to it, the stack of layers from the words to memory."""
    middle, lower = LAYER_X + CENTRE, LAYER_Y + ENCODER_H
    return page(
        TITLE,
        DESC,
        508,
        zoom(TOPS[1]),
        stack(),
        encoder_layer(LAYER_X, LAYER_Y),
        arrow([(middle, lower + 34), (middle, lower)]),
        arrow([(middle, LAYER_Y), (middle, LAYER_Y - 30)]),
        centered(middle, lower + 46, "one vector for each token"),
        text(STACK_X - 8, MEMORY_Y + 23, "memory", bold=True, anchor="end"),
    )
