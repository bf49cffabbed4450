"""Chapter 09: the whole model, with the new parts highlighted and shapes on its arrows."""

from architecture import DECODER_Y, EMBED_Y, ENCODER_Y, FRAME, LEFT, LOGITS, RIGHT, TOKENS_Y
from architecture import architecture as model_map
from colors import INK, LIT_FILL
from drawing import Box, arrow, group, lines, move, page, path, rect, text
from token_cells import token

TITLE = (
    "Three boxes are new in this chapter. The vectors\n"
    "between them have the shape (B, tokens, d_model)"
)
DESC = (
    "The map of the model, in which only the two embeddings and the output logits are lit. On the "
    "arrows: source ids (B, S) become (B, S, d_model) in the embedding and memory (B, S, d_model) "
    "in the encoder; target ids (B, T) become (B, T, d_model) in embedding and decoder, and logits "
    "(B, T, V) in the output."
)
LIFT = 40  # px by which the map moves up, because only the logits are above the model
DROP = 26  # px by which the tokens move down, so that a shape fits between them and the model
MEANINGS = """B sentences in the batch
S source tokens
T target tokens
V tokens in the vocabulary"""


def end(x: float, words: str, shape: str) -> str:
    """Draw the input tokens, and the shape of their ids on the way into the model."""
    return group(
        token(Box(x - 95, TOKENS_Y + DROP, 190, 30), words),
        path([(x, TOKENS_Y + DROP), (x, TOKENS_Y)]),
        text(x + 9, TOKENS_Y + 14, shape),
    )


def shapes() -> str:
    """Write the shape next to every arrow inside the model."""
    return group(
        text(LEFT - 9, EMBED_Y - 6, "(B, S, d_model)", anchor="end"),
        text(RIGHT + 9, EMBED_Y - 6, "(B, T, d_model)"),
        text(LEFT - 9, ENCODER_Y - 6, "(B, S, d_model)", anchor="end"),
        text(RIGHT + 9, DECODER_Y - 5, "(B, T, d_model)"),
    )


def draw() -> str:
    """Draw the map with the new parts highlighted, and the shapes of inputs, memory and output."""
    top = FRAME.y - 22
    return page(
        TITLE,
        DESC,
        TOKENS_Y + DROP + 46 - LIFT,
        move(
            0,
            -LIFT,
            model_map("09"),
            arrow([(RIGHT, LOGITS.y), (RIGHT, top)]),
            text(RIGHT + 9, top + 10, "(B, T, V)"),
            rect(Box(30, 182, 24, 20), fill=LIT_FILL, stroke=INK, width=2.2),
            text(62, 197, "new in this chapter"),
            lines(30, 234, MEANINGS, gap=24),
            shapes(),
            end(LEFT, "three hundred forty-five", "src (B, S)"),
            end(RIGHT, "dreihundertfünf", "tgt (B, T)"),
        ),
    )
