"""The map of the whole model, with the chapter that builds each part."""

from colors import PAPER
from drawing import Box, arrow, centered, group, rect, text
from model_layers import (
    CENTRE,
    DECODER_H,
    ENCODER_H,
    LAYER_W,
    MEMORY_Y,
    decoder_layer,
    encoder_layer,
)
from model_parts import around, badge, beside, block, plus, wave

FRAME = Box(10, 136, 520, 612)
ENCODER_X, DECODER_X = 18, 288
DECODER_Y = 202
LAYERS_END = DECODER_Y + DECODER_H
ENCODER_Y = LAYERS_END - ENCODER_H
SUM_Y, EMBED_Y, TOKENS_Y = LAYERS_END + 24, LAYERS_END + 48, LAYERS_END + 108
LEFT, RIGHT = ENCODER_X + CENTRE, DECODER_X + CENTRE
LOGITS = Box(DECODER_X + 33, 150, 168, 32)


def _entrance(x: float, lit: str | None) -> str:
    """Draw the entrance of a stack: tokens, embedding, and the sum with the positions."""
    embedding = Box(x - 84, EMBED_Y, 168, 32)
    return group(
        arrow([(x, TOKENS_Y), (x, embedding.bottom)]),
        arrow([(x, embedding.y), (x, SUM_Y + 9)]),
        arrow([(x, SUM_Y - 9), (x, LAYERS_END)]),
        plus(x, SUM_Y),
        block(embedding, "Embedding", "09", lit),
        beside(embedding, "09", lit, "right" if x == LEFT else "left"),
    )


def _positions(lit: str | None) -> str:
    """Draw the positional encoding, which is added on both sides."""
    middle, apart = (LEFT + RIGHT) / 2, 88
    return group(
        arrow([(middle - apart, SUM_Y), (LEFT + 9, SUM_Y)]),
        arrow([(middle + apart, SUM_Y), (RIGHT - 9, SUM_Y)]),
        wave(middle - apart, SUM_Y, lit),
        wave(middle + apart, SUM_Y, lit),
        centered(middle, SUM_Y, "positional encoding"),
        badge(middle, SUM_Y + 26, "03", lit),
    )


def _memory() -> str:
    """Draw the path of the encoder's output into every decoder layer."""
    gap, y = ENCODER_X + LAYER_W + 18, DECODER_Y + MEMORY_Y
    return group(
        arrow(
            [(LEFT, ENCODER_Y), (LEFT, ENCODER_Y - 18), (gap, ENCODER_Y - 18), (gap, y)]
            + [(DECODER_X, y)],
            width=2.2,
        ),
        text(gap + 2, ENCODER_Y - 26, "memory", bold=True, anchor="end"),
    )


def architecture(lit: str | None = None) -> str:
    """Draw the encoder, the decoder, and their connection.

    Args:
        lit: The two-digit number of the chapter whose parts are highlighted; "all" highlights
            every part, and None highlights no part.
    """
    return group(
        rect(FRAME, radius=12, **around("09", lit) | {"fill": PAPER}),
        text(FRAME.x + 12, FRAME.y + 24, "Transformer", bold=True),
        badge(FRAME.x + 128, FRAME.y + 19, "09", lit),
        encoder_layer(ENCODER_X, ENCODER_Y, lit),
        decoder_layer(DECODER_X, DECODER_Y, lit),
        _memory(),
        _positions(lit),
        _entrance(LEFT, lit),
        _entrance(RIGHT, lit),
        arrow([(RIGHT, DECODER_Y), (RIGHT, LOGITS.bottom)]),
        block(LOGITS, "Output logits", "09", lit),
        beside(LOGITS, "09", lit, "left"),
    )
