"""Chapter 11: training, in which all positions predict their next tokens at the same time."""

from colors import INK, PAPER, SOFT
from drawing import Box, arrow, centered, group, lines, page, path, rect, text
from model_layers import small_layer
from model_parts import badge
from token_cells import token

TITLE = (
    "In training, every position predicts its next token\n"
    "at once, each from the true tokens before it"
)
DESC = (
    "Four tokens from [bos] to undvierzig enter the decoder together; above them are the four "
    "tokens that it must predict, dreihundert to [eos], shifted by one position. Bold "
    "lines show that fünf is predicted from [bos] and dreihundert only."
)
TARGET = ("[bos]", "dreihundert", "fünf", "undvierzig", "[eos]")
READ, PREDICT = TARGET[:-1], TARGET[1:]
SHOWN = 1  # the position whose view is drawn boldly
LEFT, PITCH = 142, 94.5
OUT_Y, LOSS, DECODER, IN_Y = 90, Box(134, 146, 394, 34), Box(134, 212, 394, 132), 372
PLACES = [LEFT + PITCH * (i + 0.5) for i in range(len(READ))]


def row(y: float, words: tuple[str, ...]) -> str:
    """Draw one token for each position."""
    return group(
        *(
            token(Box(x - 45, y, 90, 28), word, lit=i == SHOWN)
            for i, (x, word) in enumerate(zip(PLACES, words, strict=True))
        )
    )


def views() -> str:
    """Draw a line from every position to itself and to each earlier position."""
    low, high = DECODER.bottom - 12, DECODER.y + 14
    links = [(i, j) for i in range(len(READ)) for j in range(i + 1)]
    links.sort(key=lambda link: link[0] == SHOWN)
    return group(
        *(
            path(
                [(PLACES[j], low), (PLACES[i], high)],
                color=INK if i == SHOWN else SOFT,
                width=2.6 if i == SHOWN else 0.8,
            )
            for i, j in links
        )
    )


def encoder() -> str:
    """Draw the path of the source through the encoder into the decoder."""
    layer = Box(12, DECODER.y + 46, 104, 62)
    return group(
        rect(Box(10, IN_Y - 6, 108, 44), fill=PAPER, stroke=INK, width=1, radius=7),
        centered(64, IN_Y + 7, "three hundred"),
        centered(64, IN_Y + 25, "forty-five"),
        arrow([(64, IN_Y - 6), (64, layer.bottom)]),
        small_layer(layer),
        text(layer.cx, layer.y - 12, "encoder", anchor="middle"),
        arrow([(layer.right, layer.cy), (DECODER.x, layer.cy)], width=2.2),
    )


def draw() -> str:
    """Draw a target sentence as decoder input and, one position earlier, as the prediction."""
    return page(
        TITLE,
        DESC,
        440,
        rect(DECODER, radius=12, fill=PAPER),
        text(DECODER.x + 19, DECODER.cy + 28, "decoder", turn=-90),
        views(),
        *(arrow([(x, IN_Y), (x, DECODER.bottom)]) for x in PLACES),
        *(arrow([(x, DECODER.y), (x, LOSS.bottom)]) for x in PLACES),
        *(arrow([(x, OUT_Y + 28), (x, LOSS.y)]) for x in PLACES),
        rect(LOSS),
        centered(LOSS.cx, LOSS.cy, "loss: mean of −log p(true next token)"),
        badge(LOSS.right - 18, LOSS.cy, "11"),
        row(OUT_Y, PREDICT),
        row(IN_Y, READ),
        encoder(),
        lines(LEFT - 8, OUT_Y + 10, "tgt_out:\nto predict", anchor="end", bold=True),
        text(LEFT, IN_Y + 48, "tgt_in: to read, shifted one position to the right", bold=True),
    )
