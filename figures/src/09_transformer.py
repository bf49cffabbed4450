"""Chapter 09: the whole model, every part of it built."""

from architecture import ENCODER_Y, FRAME, LEFT, LOGITS, RIGHT, TOKENS_Y, architecture
from drawing import Box, arrow, group, lines, move, page, text
from model_parts import EVERYTHING
from token_cells import token

TITLE = (
    "Ids go in, logits come out, and every part between them\n"
    "has a chapter of its own or is new here"
)
DESC = (
    "The map of the model with every part lit: source ids (B, S) become memory (B, S, "
    "d_model) in the encoder, target ids (B, T) become logits (B, T, V) in the decoder."
)
LIFT = 22  # px by which the map moves up: nothing stands above the model here
SHAPES = """B sentences in the batch
S source tokens
T target tokens
V tokens in the vocabulary"""


def end(x: float, words: str, shape: str) -> str:
    """Draw what is read: tokens, and the shape of their ids."""
    return group(
        token(Box(x - 95, TOKENS_Y, 190, 30), words),
        text(x, TOKENS_Y + 49, shape, anchor="middle"),
    )


def draw() -> str:
    """Draw the map with every part lit, and the shapes that go in, across and out."""
    top = FRAME.y - 22
    return page(
        TITLE,
        DESC,
        TOKENS_Y + 62 - LIFT,
        move(
            0,
            -LIFT,
            architecture(EVERYTHING),
            arrow([(RIGHT, LOGITS.y), (RIGHT, top)]),
            text(RIGHT, top - 8, "logits (B, T, V)", anchor="middle"),
            lines(30, 210, SHAPES, gap=24),
            text(LEFT + 4, ENCODER_Y - 26, "(B, S, d_model)"),
            end(LEFT, "three hundred forty-five", "src (B, S)"),
            end(RIGHT, "dreihundertfünf", "tgt (B, T)"),
        ),
    )
