"""Chapter 12: decoding, in which the decoder reads each chosen token to choose the next."""

from colors import PAPER
from drawing import Box, arrow, centered, group, page, rect, text
from token_cells import token

TITLE = (
    "The decoder reads each token that it has written\n"
    "to choose the next one, until it writes [eos]"
)
DESC = (
    "A staircase of four steps: the decoder reads [bos] and chooses dreihundert, reads [bos] "
    "dreihundert and chooses fünf, and so on to [eos]. A dashed arrow brings each chosen token to "
    "the end of the next row; the encoder has run once, above."
)
TARGET = ("[bos]", "dreihundert", "fünf", "undvierzig", "[eos]")
STEPS = len(TARGET) - 1
LEFT, WIDE, FIRST, STEP = 20, (48, 92, 46, 86, 48), 142, 54
MODEL_X, CHOSEN_X = 330, 428


def place(i: int, step: int) -> Box:
    """Return the box of token i among the tokens that are read at a step."""
    return Box(LEFT + sum(WIDE[:i]) + 4 * i, FIRST + STEP * step, WIDE[i], 28)


def fed_back(step: int, chosen: Box) -> str:
    """Draw an arrow from a chosen token to its place in the next row."""
    goal, turn = place(step + 1, step + 1), chosen.bottom + 11
    return arrow(
        [(chosen.cx, chosen.bottom), (chosen.cx, turn), (goal.cx, turn), (goal.cx, goal.y)],
        dash="5 4",
    )


def turn(step: int) -> str:
    """Draw one step: the tokens to read, the decoder, and the chosen token."""
    y = FIRST + STEP * step
    model, chosen = Box(MODEL_X, y - 2, 74, 32), Box(CHOSEN_X, y, WIDE[1], 28)
    read = [place(i, step) for i in range(step + 1)]
    return group(
        *(token(box, TARGET[i], lit=i == step and i > 0) for i, box in enumerate(read)),
        arrow([(read[-1].right, model.cy), (model.x, model.cy)]),
        rect(model, radius=9, fill=PAPER),
        centered(model.cx, model.cy, "decoder"),
        arrow([(model.right, model.cy), (chosen.x, model.cy)]),
        token(chosen, TARGET[step + 1], lit=True),
        fed_back(step, chosen) if step + 1 < STEPS else "",
    )


def source() -> str:
    """Draw the encoder, which runs once before the first step."""
    words, encoder = Box(LEFT, 80, 190, 30), Box(LEFT + 214, 79, 74, 32)
    center = MODEL_X + 37
    return group(
        token(words, "three hundred forty-five"),
        arrow([(words.right, encoder.cy), (encoder.x, encoder.cy)]),
        rect(encoder, radius=9, fill=PAPER),
        centered(encoder.cx, encoder.cy, "encoder"),
        arrow([(encoder.right, encoder.cy), (center, encoder.cy), (center, FIRST - 2)], width=2.2),
        text(encoder.right + 2, encoder.cy - 8, "memory", bold=True),
        text(center + 12, encoder.cy + 4, "the same"),
        text(center + 12, encoder.cy + 22, "at every step"),
    )


def draw() -> str:
    """Draw the four steps that write a number, with dashed arrows from each output to the input."""
    last = FIRST + STEP * (STEPS - 1)
    return page(
        TITLE,
        DESC,
        last + 56,
        source(),
        *(turn(step) for step in range(STEPS)),
    )
