"""Chapter 18: the parts that are removed from the Transformer, and the model that remains."""

from colors import INK, LINE, LIT_FILL, PAPER, SOFT, mix, shade, tint
from drawing import Box, arrow, centered, circle, group, page, path, polygon, rect, text
from model_layers import hexagon
from model_parts import ROLES, badge, change, mask_grid, plus, wave
from token_cells import blocked, cell

TITLE = (
    "Four of the six changes on the way to a GPT:\nwithout a source, half of the Transformer goes"
)
DESC = (
    "On the left the Transformer of chapter 09 from bottom to top. Its encoder is crossed out, "
    "and so are cross-attention and the add and norm above it: cut 1. On the right, in the same "
    "rows, one stack remains: embedding plus learned positions (cut 3); N times norm (cut 2), "
    "masked self-attention and a sum, then norm, feed forward with GELU (cut 4) and a sum; a "
    "last norm and the output. A thick line leads from sum to sum past every norm."
)
SOURCE, TARGET, STACK, W = 85, 245, 428, 116  # the middles of the columns, the width of a part
OUTPUT, LAST, TOP, BOTTOM = 104, 146, 186, 582  # TOP to BOTTOM: the outline of a layer
UPPER, FEED, MIDDLE, CROSS, LOWER, LOOK = 212, 250, 300, 342, 390, 432  # rows, from above
PRODUCT, FIRST, SUM, EMBED, END = 502, 536, 602, 624, 678
STRIP, TALL, ATTENTION = 24, 34, 54  # heights: a flat part, feed forward, self-attention
ENCODER = Box(10, 274, 150, BOTTOM - 274)
DECODER, LEFT_OVER = Box(170, TOP, 150, BOTTOM - TOP), Box(346, TOP, 150, BOTTOM - TOP)
PALE, NEW = dict(fill=PAPER, stroke=SOFT), dict(fill=LIT_FILL, stroke=INK, width=2.2)
PALE_INK = mix(INK, PAPER, 0.35)
MADE_X, INSTEAD_X = 333, 512  # the places of the numbers of the changes, left and right
MADE = ((UPPER + 12, 2), (FEED + 17, 4), (MIDDLE + 36, 1), (LOWER + 12, 2))
INSTEAD = ((LAST + 12, 2), (FEED + 17, 4), (MIDDLE + 12, 2), (FIRST + 12, 2), (SUM, 3))


def row(x: float, y: float, h: float = STRIP) -> Box:
    """Return the box of a part in the column whose middle is x."""
    return Box(x - W / 2, y, W, h)


def named(box: Box, words: str, look: dict) -> str:
    """Write the name of a part; it is pale when the part is struck out."""
    return centered(box.cx, box.cy, words, color=PALE_INK if look is PALE else INK)


def strips(x: float, words: str, look: dict, *tops: float) -> str:
    """Draw several flat parts with the same name."""
    boxes = [row(x, y) for y in tops]
    return group(*(group(rect(box, **look), named(box, words, look)) for box in boxes))


def feed(x: float, y: float, look: dict) -> str:
    """Draw the feed-forward network."""
    box = row(x, y, TALL)
    return group(polygon(hexagon(box, 0.12), **look), named(box, "Feed forward", look))


def attention(box: Box, words: str, look: dict, name: Box | None = None) -> str:
    """Draw multi-head attention as overlapping sheets, with words on the first."""
    sheets = [Box(box.x + d, box.y - d, box.w, box.h) for d in (6, 3, 0)]
    return group(*(rect(sheet, **look) for sheet in sheets), named(name or box, words, look))


def self_attention(x: float, mask: str) -> str:
    """Draw masked self-attention."""
    words = centered(x - 20, LOOK + 38, "masked")
    name = row(x, LOOK + 3)
    return group(attention(row(x, LOOK, ATTENTION), "self-attention", {}, name), words, mask)


def causal(x: float, y: float) -> str:
    """Draw the mask of a stack that does not have padding."""
    boxes = [(i, j, Box(x + 6.5 * j, y + 6.5 * i, 6.5, 6.5)) for i in range(4) for j in range(4)]
    return group(*(cell(box) if j <= i else blocked(box, width=1) for i, j, box in boxes))


def fork(x: float, below: float) -> str:
    """Draw the line that leads to the three projections."""
    left, right, fan, low = x - 38, x + 38, PRODUCT + 28, PRODUCT + 20
    sides = [(left, low), (left, fan), (right, fan), (right, low)]
    return group(path([(x, below), (x, low)]), path(sides))


def products(x: float) -> str:
    """Draw the projections to V, K and Q, with arrows into attention."""
    places = [(x + 38 * (i - 1), *role) for i, role in enumerate(ROLES)]
    boxes = [Box(middle - 14, PRODUCT, 28, 20) for middle, _, _ in places]
    return group(
        *(
            group(
                cell(box, fill=tint(role), stroke=role),
                centered(middle, box.cy, name, bold=True, color=shade(role)),
                ways(middle, (PRODUCT, LOOK + ATTENTION), color=role, width=2.2),
            )
            for box, (middle, name, role) in zip(boxes, places, strict=True)
        )
    )


def ways(x: float, *ends: tuple[float, float], **style: object) -> str:
    """Draw upward arrows in the middle of a column."""
    return group(*(arrow([(x, below), (x, above)], **style) for below, above in ends))


def residual(x: float, fork: float, y: float, side: int, color: str = LINE) -> str:
    """Draw the path around a sub-layer into Add & Norm at y; side -1 is left, and 1 is right."""
    edge, out = x + side * W / 2, x + side * (W / 2 + 11)
    return arrow([(x, fork), (out, fork), (out, y + 12), (edge, y + 12)], color=color)


def pale_plus(x: float, y: float) -> str:
    """Draw a sum that is struck out."""
    signs = [(x - 5, y), (x + 5, y)], [(x, y - 5), (x, y + 5)]
    return group(circle(x, y, 9, stroke=SOFT), *(path(sign, color=SOFT) for sign in signs))


def entrance(x: float, words: str, look: dict) -> str:
    """Draw the tokens, the embedding and the sum below a stack."""
    line, ink = (SOFT, PALE_INK) if look is PALE else (LINE, INK)
    return group(
        ways(x, (END - 14, EMBED + STRIP), (EMBED, SUM + 9), color=line),
        pale_plus(x, SUM) if look is PALE else plus(x, SUM),
        strips(x, "Embedding", look, EMBED),
        text(x, END, words, anchor="middle", color=ink),
    )


def layer(box: Box, middle: float) -> str:
    """Draw the outline of a layer, and write how often it is stacked."""
    name = text(middle + 14, box.y + 19, "× N", bold=True)
    return group(rect(box, radius=12, fill=PAPER), name)


def strike(box: Box) -> str:
    """Cross out the content of a box."""
    ends = ((box.y, box.bottom), (box.bottom, box.y))
    return group(*(path([(box.x, a), (box.right, b)], color=INK, width=3) for a, b in ends))


def encoder() -> str:
    """Draw the encoder and its memory, struck out."""
    over, gap, y = ENCODER.y - 14, ENCODER.right + 5, CROSS + 15
    memory = [(SOURCE, MIDDLE), (SOURCE, over), (gap, over), (gap, y), (TARGET - W / 2, y)]
    inside = ((SUM - 9, LOOK + ATTENTION), (LOOK - 6, LOWER + STRIP), (LOWER, CROSS + TALL))
    return group(
        rect(ENCODER, radius=12, **PALE),
        entrance(SOURCE, "source", PALE),
        ways(SOURCE, *inside, (CROSS, MIDDLE + STRIP), color=SOFT),
        residual(SOURCE, FIRST + 14, LOWER, -1, SOFT),
        residual(SOURCE, LOWER - 7, MIDDLE, -1, SOFT),
        arrow(memory, color=SOFT),
        strips(SOURCE, "Add & norm", PALE, MIDDLE, LOWER),
        feed(SOURCE, CROSS, PALE),
        attention(row(SOURCE, LOOK, ATTENTION), "self-attention", PALE),
        strike(ENCODER),
    )


def cross_attention() -> str:
    """Draw cross-attention and its Add & Norm, struck out."""
    return group(
        ways(TARGET, (LOWER, CROSS + 30), (CROSS - 6, MIDDLE + STRIP), color=SOFT),
        residual(TARGET, LOWER - 8, MIDDLE, 1, SOFT),
        attention(row(TARGET, CROSS, 30), "cross-attention", PALE),
        strips(TARGET, "Add & norm", PALE, MIDDLE),
        strike(Box(TARGET - W / 2 - 4, MIDDLE - 4, W + 8, CROSS + 38 - MIDDLE)),
    )


def decoder() -> str:
    """Draw the decoder, with three projections to V, K and Q, and a norm after each sum."""
    ends = ((LOOK - 6, LOWER + STRIP), (MIDDLE, FEED + TALL), (FEED, UPPER + STRIP))
    return group(
        layer(DECODER, TARGET),
        entrance(TARGET, "target so far", {}),
        fork(TARGET, SUM - 9),
        residual(TARGET, FIRST + 14, LOWER, 1),
        residual(TARGET, FEED + 42, UPPER, 1),
        ways(TARGET, *ends, (UPPER, OUTPUT + STRIP)),
        products(TARGET),
        self_attention(TARGET, mask_grid(TARGET + 16, LOOK + 25, "both")),
        strips(TARGET, "Add & norm", {}, LOWER, UPPER),
        cross_attention(),
        feed(TARGET, FEED, {}),
        strips(TARGET, "Output", {}, OUTPUT),
    )


def road() -> str:
    """Draw the thick line from sum to sum, which no norm interrupts."""
    out, parts = STACK - W / 2 - 14, []
    for start, fork, end in ((SUM - 9, FIRST + 35, LOWER), (LOWER + 3, MIDDLE + 35, UPPER)):
        points = [(STACK, start), (STACK, fork), (out, fork), (out, end + 12)]
        parts.append(arrow([*points, (STACK - 9, end + 12)], width=2.8))
        parts.append(plus(STACK, end + 12))
    return group(*parts, ways(STACK, (UPPER + 3, LAST + STRIP), width=2.8))


def positions() -> str:
    """Draw learned positions as a table, with an arrow to the sum."""
    x, y = STACK + 28, SUM - 13.5
    boxes = [Box(x + 9 * i, y + 9 * j, 9, 9) for i in range(4) for j in range(3)]
    table = group(*(cell(box, fill=LIT_FILL, stroke=INK) for box in boxes))
    return group(table, arrow([(x, SUM), (STACK + 9, SUM)]))


def stack() -> str:
    """Draw the stack that remains, and highlight its new parts."""
    ends = ((FIRST + 35, FIRST + STRIP), (LOOK - 6, LOWER + 21))
    ends += ((MIDDLE + 35, MIDDLE + STRIP), (MIDDLE, FEED + TALL), (FEED, UPPER + 21))
    return group(
        layer(LEFT_OVER, STACK),
        entrance(STACK, "text so far", {}),
        positions(),
        ways(STACK, *ends, (LAST, OUTPUT + STRIP)),
        road(),
        fork(STACK, FIRST),
        products(STACK),
        self_attention(STACK, causal(STACK + 16, LOOK + 25)),
        strips(STACK, "Norm", NEW, FIRST, MIDDLE, LAST),
        feed(STACK, FEED, NEW),
        strips(STACK, "Output", {}, OUTPUT),
    )


def waves() -> str:
    """Draw the positional encoding between the two sums on the left."""
    middle = (SOURCE + TARGET) / 2
    return group(
        arrow([(middle - 14, SUM), (SOURCE + 9, SUM)], color=SOFT),
        arrow([(middle + 14, SUM), (TARGET - 9, SUM)]),
        wave(middle, SUM),
        change(middle, SUM + 32, 3),
    )


def draw() -> str:
    """Draw the Transformer with its encoder struck out and, next to it, the stack that remains."""
    return page(
        TITLE,
        DESC,
        END + 76,
        text(20, 92, "Transformer", bold=True),
        badge(134, 87, "09"),
        text(STACK - W / 2, 92, "what is left", bold=True),
        decoder(),
        encoder(),
        stack(),
        waves(),
        change(29, 225, 1, "no source,\nno encoder, no\ncross-attention"),
        *(change(MADE_X, y, cut) for y, cut in MADE),
        *(change(INSTEAD_X, y, cut) for y, cut in INSTEAD),
        change(29, END + 29, 2, "norm first, and a last norm"),
        change(29, END + 55, 3, "learned positions"),
        change(270, END + 29, 4, "GELU, not ReLU"),
    )
