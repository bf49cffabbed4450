"""The encoder layer and the decoder layer, built from the parts."""

from colors import PAPER
from drawing import Box, arrow, group, move, path, polygon, rect, text
from model_parts import (
    PORT,
    ROLES,
    add_norm,
    around,
    badge,
    beside,
    feed_forward,
    hexagon,
    multi_head,
    ports,
)

LAYER_W, ENCODER_H, DECODER_H = 234, 286, 450
CENTRE = LAYER_W / 2
MEMORY_Y = 270  # where memory enters a decoder layer, below its upper edge
INNER_X, INNER_W = 33, 168


def _row(y: float, h: float) -> Box:
    """Return the box of a part that fills the inner width of a layer."""
    return Box(INNER_X, y, INNER_W, h)


NORM_3, FEED, NORM_2, LOOK = _row(32, 24), _row(72, 42), _row(138, 24), _row(184, 62)
NORM_1, LOOK_BACK = _row(302, 24), _row(348, 62)


def up(below: float, above: float) -> str:
    """Draw an upward arrow in the middle of a layer."""
    return arrow([(CENTRE, below), (CENTRE, above)])


def bypass(y: float, to: Box, side: str) -> str:
    """Draw the residual connection, which leaves the middle at y and enters Add & Norm."""
    outside, edge = (10, to.x) if side == "left" else (LAYER_W - 10, to.right)
    return arrow([(CENTRE, y), (outside, y), (outside, to.cy), (edge, to.cy)])


def frame(height: float, name: str, chapter: str, lit: str | None) -> str:
    """Draw the outline of a layer with its name, its chapter and the size of the stack."""
    return group(
        rect(Box(0, 0, LAYER_W, height), radius=12, **around(chapter, lit)),
        text(6, 21, name, bold=True),
        text(CENTRE + 20, 21, "× N", bold=True),
        badge(LAYER_W - 18, 18, chapter, lit),
    )


def _feed_and_norm(residual: str, badges: str, lit: str | None) -> str:
    """Draw the last sub-layer, which both kinds of layer share."""
    return group(
        bypass(128, NORM_3, residual),
        up(NORM_2.y, FEED.bottom),
        up(FEED.y, NORM_3.bottom),
        path([(CENTRE, NORM_3.y), (CENTRE, 0)]),
        feed_forward(FEED, lit),
        add_norm(NORM_3, lit),
        add_norm(NORM_2, lit),
        *(beside(box, "04", lit, badges) for box in (NORM_3, NORM_2)),
        beside(FEED, "05", lit, badges),
    )


def self_attention(box: Box, norm: Box, mask: str, residual: str, lit: str | None) -> str:
    """Draw self-attention with its Add & Norm; all three inputs are the same vectors."""
    fan, fork = box.bottom + 24, box.bottom + 32
    side = "right" if residual == "left" else "left"
    return group(
        bypass(fork, norm, residual),
        path([(CENTRE, fork + 8), (CENTRE, fan)]),
        path([(CENTRE - PORT, fan), (CENTRE + PORT, fan)]),
        ports(box, fan),
        up(box.y - 6, norm.bottom),
        multi_head(box, mask, lit),
        beside(Box(box.x, box.y, box.w + 5, 32), "02", lit, side),
    )


def cross_attention(lit: str | None) -> str:
    """Draw cross-attention; values and keys come from memory on the left, queries from below."""
    query, fork = CENTRE + PORT, 290
    return group(
        bypass(fork, NORM_2, "right"),
        path([(CENTRE, NORM_1.y), (CENTRE, fork), (query, fork)]),
        path([(0, MEMORY_Y), (CENTRE, MEMORY_Y)], width=2.2),
        ports(LOOK, MEMORY_Y, ROLES[:2]),
        ports(LOOK, fork, ROLES[2:]),
        up(LOOK.y - 6, NORM_2.bottom),
        multi_head(LOOK, "padding", lit),
        beside(Box(LOOK.x, LOOK.y, LOOK.w, 32), "02", lit, "left"),
    )


def encoder_layer(x: float, y: float, lit: str | None = None) -> str:
    """Draw an encoder layer (chapter 07) whose upper left corner is (x, y)."""
    return move(
        x,
        y,
        frame(ENCODER_H, "Encoder layer", "07", lit),
        self_attention(LOOK, NORM_2, "padding", "left", lit),
        _feed_and_norm("left", "right", lit),
    )


def decoder_layer(x: float, y: float, lit: str | None = None) -> str:
    """Draw a decoder layer (chapter 08) whose upper left corner is (x, y)."""
    return move(
        x,
        y,
        frame(DECODER_H, "Decoder layer", "08", lit),
        self_attention(LOOK_BACK, NORM_1, "both", "right", lit),
        add_norm(NORM_1, lit),
        beside(NORM_1, "04", lit, "left"),
        cross_attention(lit),
        _feed_and_norm("right", "left", lit),
    )


def small_layer(box: Box, cross: bool = False) -> str:
    """Draw a small layer that shows only the shapes of its parts."""
    heights = [7, 13, 7, 13] + ([7, 13] if cross else [])
    tops = [box.y + 7 + sum(heights[:i]) + 4 * i for i in range(len(heights))]
    rows = [Box(box.cx - 44, y, 88, h) for y, h in zip(tops, heights, strict=True)]
    return group(
        rect(box, radius=9, fill=PAPER),
        *(rect(row, radius=2) for row in rows[::2]),
        polygon(hexagon(rows[1])),
        *(group(rect(Box(row.x + 3, row.y - 2, row.w, row.h), radius=2)) for row in rows[3::2]),
        *(group(rect(row, radius=2)) for row in rows[3::2]),
    )
