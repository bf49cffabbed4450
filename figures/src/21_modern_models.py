"""Chapter 21: a GPT layer next to the layer of a later model, in which four parts differ."""

from math import cos, pi, sin

from colors import INK, KEY, LIT_FILL, PAPER, QUERY, VALUE, shade, tint
from drawing import Box, arrow, centered, circle, group, lines, page, path, polygon, rect, text
from model_layers import hexagon
from model_parts import badge, change, plus
from token_cells import cell

TITLE = (
    "A later model is still a GPT with four new parts:\n"
    "norm, feed forward, positions, keys and values"
)
DESC = (
    "Two layers side by side, from bottom to top, in the same rows. On the left a GPT: positions "
    "are added to the embedding; LayerNorm, self-attention with eight queries, eight keys and "
    "eight values, a sum; LayerNorm, feed forward with up, GELU and down, a sum. On the right a "
    "later model: nothing is added to the embedding (3); RMSNorm (1), self-attention whose eight "
    "queries share two keys and two values (4), queries and keys rotated by position (3), a sum; "
    "RMSNorm (1), feed forward with up and a gate through SiLU, which are multiplied, then "
    "down (2), a sum. A thick line leads from sum to sum and passes every norm."
)
GPT, LATER = Box(10, 108, 220, 454), Box(310, 108, 220, 454)  # the outlines of the layers
NUMBERS = 270  # the x of the numbers of the changes
AXIS, ROAD, HALF = 117, 12, 93  # from the outline's left: the parts' middle, the road past them
UPPER, FEED, SECOND, MIDDLE = 140, 164, 296, 366  # rows, from above
LOOK, FIRST, ADD, EMBED, END = 397, 511, 584, 606, 660
FEED_H, LOOK_H, STRIP, PART_H = 116, 98, 24, 22  # heights
HEADS, GROUPS, PITCH, SIDE = 8, 2, 16, 13  # PITCH and SIDE of the squares, one for each head
ROWS = ((LOOK + 10, "V", VALUE), (LOOK + 38, "K", KEY), (LOOK + 76, "Q", QUERY))
CHANGES = {  # what each of them means, and in which rows it is
    1: ("no mean, no shift", SECOND + 12, FIRST + 12),
    2: ("a gate decides what passes", FEED + FEED_H / 2),
    3: ("Q and K rotated, nothing is added", LOOK + 82, ADD),
    4: ("8 heads share 2 KV heads", LOOK + 30),
}
NEW = dict(fill=LIT_FILL, stroke=INK, width=2.2)


def strip(x: float, y: float, words: str, w: float = 116, **look: object) -> str:
    """Draw a flat part with its name, centered at x."""
    return group(rect(Box(x - w / 2, y, w, STRIP), **look), centered(x, y + STRIP / 2, words))


def step(x: float, y: float, words: str, w: float, radius: float = 4) -> str:
    """Draw a step inside the feed-forward network, centered at (x, y)."""
    box = Box(x - w / 2, y - PART_H / 2, w, PART_H)
    return group(rect(box, fill=PAPER, radius=radius), centered(x, y, words))


def ways(x: float, *ends: tuple[float, float]) -> str:
    """Draw upward arrows in the middle of a layer."""
    return group(*(arrow([(x, below), (x, above)]) for below, above in ends))


def road(layer: Box, start: float) -> str:
    """Draw the thick line from the embedding to both sums, which no norm interrupts."""
    x, out, parts = layer.x + AXIS, layer.x + ROAD, []
    for low, fork, end in ((start, FIRST + 38, MIDDLE), (MIDDLE - 9, SECOND + 38, UPPER)):
        points = [(x, low), (x, fork), (out, fork), (out, end), (x - 9, end)]
        parts += [arrow(points, width=2.8), plus(x, end)]
    return group(*parts, arrow([(x, UPPER - 9), (x, layer.y - 10)], width=2.8))


def turn(x: float, y: float) -> str:
    """Draw the rotation by the position as a counterclockwise arrow."""
    angles = [pi * (-0.35 + 1.45 * i / 20) for i in range(21)]
    arc = [(x + 5 * cos(angle), y - 5 * sin(angle)) for angle in angles]
    tip, foot = pi * 1.38, pi * 1.08
    head = [
        (x + 5 * cos(tip), y - 5 * sin(tip)),
        (x + 1.6 * cos(foot), y - 1.6 * sin(foot)),
        (x + 8.2 * cos(foot), y - 8.2 * sin(foot)),
    ]
    return group(
        circle(x, y, 10, fill=LIT_FILL, stroke=INK),
        path(arc, color=INK),
        polygon(head, fill=INK, stroke=None),
    )


def heads(left: float, shared: bool) -> str:
    """Draw a square for every query, key and value, and lines from each query to its key."""
    places = [left + PITCH * i + SIDE / 2 for i in range(HEADS)]
    each = HEADS // GROUPS if shared else 1
    sets = [sum(places[i : i + each]) / each for i in range(0, HEADS, each)]
    (top, *_), (middle, *_), (bottom, *_) = ROWS
    thin = [[(at, middle), (at, top + SIDE)] for at in sets]
    thin += [[(at, bottom), (sets[i // each], middle + SIDE)] for i, at in enumerate(places)]
    band = Box(left - 5, top - 5, PITCH * HEADS + 7, middle - top + SIDE + 10)
    return group(
        rect(band, **NEW) if shared else "",
        *(path(line, width=1.2) for line in thin),
        *(
            group(
                centered(left - 16, y + SIDE / 2, name, bold=True, color=shade(role)),
                *(
                    cell(Box(at - SIDE / 2, y, SIDE, SIDE), fill=tint(role), stroke=role)
                    for at in (places if role == QUERY else sets)
                ),
            )
            for y, name, role in ROWS
        ),
    )


def attention(x: float, shared: bool) -> str:
    """Draw self-attention as overlapping sheets, with all heads on the first."""
    box = Box(x - HALF, LOOK, 2 * HALF, LOOK_H)
    turns = [turn(box.right - 14, y + SIDE / 2) for y, _, role in ROWS if role != VALUE]
    return group(
        *(rect(Box(box.x + d, box.y - d, box.w, box.h)) for d in (6, 3, 0)),
        heads(box.x + (28 if shared else 33), shared),
        *(turns if shared else ()),
    )


def gate(x: float) -> str:
    """Draw the inside of a feed-forward network with a gate."""
    down, middle, up = FEED + 21, FEED + FEED_H / 2, FEED + FEED_H - 21
    half, side = PART_H / 2, 47
    return group(
        path([(x, FEED + FEED_H), (x, up)]),
        arrow([(x, up), (x - side + 25, up)]),
        arrow([(x, up), (x + side - 25, up)]),
        arrow([(x - side, up - half), (x - side, middle), (x - 9, middle)]),
        ways(x + side, (up - half, middle + half)),
        arrow([(x + side - 25, middle), (x + 9, middle)]),
        circle(x, middle, 9),
        circle(x, middle, 1.6, fill=INK, stroke=INK),
        ways(x, (middle - 9, down + half)),
        step(x - side, up, "up", 50),
        step(x + side, up, "gate", 50),
        step(x + side, middle, "SiLU", 50, half),
        step(x, down, "down", 56),
    )


def plain(x: float) -> str:
    """Draw the inside of a GPT's feed-forward network."""
    down, middle, up = FEED + 21, FEED + FEED_H / 2, FEED + FEED_H - 21
    half = PART_H / 2
    return group(
        path([(x, FEED + FEED_H), (x, up)]),
        ways(x, (up - half, middle + half), (middle - half, down + half)),
        step(x, up, "up", 56),
        step(x, middle, "GELU", 56, half),
        step(x, down, "down", 56),
    )


def feed_forward(x: float, later: bool) -> str:
    """Draw the feed-forward network and its inside."""
    box = Box(x - HALF, FEED, 2 * HALF, FEED_H)
    return group(
        polygon(hexagon(box, 0.1), **(NEW if later else {})),
        path([(x, FEED + 10), (x, FEED)]),
        gate(x) if later else plain(x),
    )


def layer(outline: Box, later: bool) -> str:
    """Draw one layer, from the embedding below it to the arrow that leaves it."""
    x, norm, look = outline.x + AXIS, "RMSNorm" if later else "LayerNorm", NEW if later else {}
    added = group(
        ways(x, (EMBED, ADD + 9)),
        plus(x, ADD),
        arrow([(x + 34, ADD), (x + 9, ADD)]),
        text(x + 40, ADD + 5, "position"),
    )
    return group(
        rect(outline, radius=12, fill=PAPER),
        text(outline.right - 44, outline.y + 21, "× N", bold=True),
        "" if later else added,
        ways(x, (END - 14, EMBED + STRIP), (FIRST + 38, FIRST + STRIP), (FIRST, LOOK + LOOK_H)),
        ways(x, (LOOK - 6, MIDDLE + 9), (SECOND + 38, SECOND + STRIP), (SECOND, FEED + FEED_H)),
        ways(x, (FEED, UPPER + 9)),
        road(outline, EMBED if later else ADD - 9),
        strip(x, EMBED, "Embedding"),
        text(x, END, "text so far", anchor="middle"),
        strip(x, FIRST, norm, **look),
        attention(x, later),
        strip(x, SECOND, norm, **look),
        feed_forward(x, later),
    )


def explained(number: int) -> list[str]:
    """Draw the number of a change in its rows, and below the layers with what it means."""
    words, *rows = CHANGES[number]
    x, y = 29 if number <= 2 else 262, END + (25 if number % 2 else 51)
    return [change(x, y, number, words), *(change(NUMBERS, row, number) for row in rows)]


def draw() -> str:
    """Draw both layers, with the number of each change between them."""
    return page(
        TITLE,
        DESC,
        END + 72,
        text(20, 92, "GPT", bold=True),
        badge(69, 87, "19"),
        text(LATER.x + 8, 92, "a later model", bold=True),
        layer(GPT, later=False),
        layer(LATER, later=True),
        lines(NUMBERS, FEED + 13, "Feed\nforward", anchor="middle", bold=True),
        lines(NUMBERS, LOOK - 24, "Self-\nattention", anchor="middle", bold=True),
        *(group(*explained(number)) for number in CHANGES),
    )
