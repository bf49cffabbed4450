"""Chapter 27: how two processes share one training run, and what they send to each other."""

from fractions import Fraction

from colors import INK, KEY, LINE, LIT_FILL, PAPER, SOFT, VALUE, mix, shade
from drawing import Box, arrow, centered, group, lines, page, polygon, rect, strokes, text
from model_parts import plus
from token_cells import blocked, cell

TITLE = (
    "Two processes share one training run: each takes half\n"
    "of the matrices, rows, weights, positions or layers"
)
DESC = (
    "Five panels, each with two processes. A process has four layers of two matrices and below "
    "them a batch of four texts; what it has is yellow. Tensor: half of every matrix, the first "
    "cut into columns and the second into rows, all texts, a plus at every layer. Data: all layers "
    "and every second text; between them a plus, for gradients. Fully sharded: the same texts, but "
    "half of every matrix; of one layer the other half is borrowed. Context: all layers and "
    "half of the positions of every text; keys and values go both ways. Pipeline: two layers "
    "each, all texts; activations go forward and their gradients go back. Next to it, two rows of "
    "squares show when each works on the micro-batches 1 to 4, with hatched squares at the start, "
    "in the middle and at the end where a process waits."
)
LAYERS, ROWS, LENGTH = 4, 4, 8  # of the model; texts of the batch, and their positions
BACK = 2  # the time of the backward pass, in forward passes
MATRIX, PITCH, CELL = 32, 21, 8  # px: a matrix, across; from layer to layer; a position
CARD_W, CARD_H, APART = 100, 164, 38  # a process, and the way between two of them
LEFT, RIGHT, TOP, DOWN = 20, 284, 104, 266  # where panels begin; DOWN from one to the one below
UNIT = 14  # px for the time that a micro-batch takes forward
TIMES = (ROWS + 1) * (1 + BACK)  # until a pipeline of two finishes all micro-batches
BEHIND = mix(SOFT, PAPER, 0.7)  # fills the backward pass
NONE, ALL = (0, 0, 0, 0), (0, 0, 1, 1)  # of a box: where a share begins, how large it is
COLUMNS = ((0, 0, 0.5, 1), (0.5, 0, 0.5, 1))
HALVES = ((0, 0, 1, 0.5), (0, 0.5, 1, 0.5))
NAMES = {
    "tensor": "Tensor: half of every matrix",
    "data": "Data: half of the rows",
    "sharded": "Fully sharded: weights too",
    "context": "Context: half of the positions",
    "pipeline": "Pipeline: half of the layers",
}
SENT = {
    "tensor": "partial sums, every layer",
    "data": "gradients, once a step",
    "sharded": "halves of weights; gradients",
    "context": "keys, values; gradients",
    "pipeline": "activations; gradients back",
}
SAVED = {
    "tensor": "time, weights,\nsome activations",
    "data": "time, activations",
    "sharded": "time, weights, activations",
    "context": "time, activations\nof long texts",
    "pipeline": "some time, weights,\nactivations",
}


def within(box: Box, share: tuple) -> Box:
    """Find a part of a box."""
    x, y, w, h = share
    return Box(box.x + x * box.w, box.y + y * box.h, w * box.w, h * box.h)


def kept(box: Box) -> str:
    """Draw a box that a process stores."""
    return rect(box, fill=LIT_FILL, stroke=INK, width=1.4, radius=0)


def lent(box: Box) -> str:
    """Draw a box that a process borrows temporarily."""
    corners = [(box.x, box.y), (box.right, box.y), (box.right, box.bottom), (box.x, box.bottom)]
    pale = mix(LIT_FILL, PAPER, 0.5)
    return polygon(corners, fill=pale, stroke=INK, width=1.2, stroke_dasharray="3 2")


def layer(x: float, y: float, shares: tuple = (NONE, NONE), borrows: bool = False) -> str:
    """Draw a layer: two matrices, and the parts of them that a process stores."""
    boxes = [Box(x + (MATRIX + 6) * i, y, MATRIX, PITCH - 5) for i in range(2)]
    return group(
        *(rect(box, fill=PAPER, stroke=SOFT, width=1, radius=0) for box in boxes),
        *(lent(box) for box in boxes if borrows),
        *(
            kept(within(box, share))
            for box, share in zip(boxes, shares, strict=True)
            if share != NONE
        ),
    )


def has(way: str, who: int, number: int) -> tuple:
    """Return the parts of a layer's two matrices that a process stores."""
    if way == "sharded":
        return HALVES[who], HALVES[who]
    if way == "tensor":
        return COLUMNS[who], HALVES[who]
    if way == "pipeline" and number // (LAYERS // 2) != who:
        return NONE, NONE
    return ALL, ALL


def reads(way: str, who: int, row: int) -> tuple:
    """Return the part of a text in the batch that a process reads."""
    if way in ("data", "sharded"):
        return ALL if row % 2 == who else NONE
    return COLUMNS[who] if way == "context" else ALL


def sentence(box: Box, share: tuple) -> str:
    """Draw the positions of a text, and the part that is read."""
    edges = [[(box.x + CELL * i, box.y), (box.x + CELL * i, box.bottom)] for i in range(1, LENGTH)]
    return group(
        rect(box, fill=PAPER, stroke=SOFT, width=1, radius=0),
        rect(within(box, share), fill=LIT_FILL, stroke=None, radius=0) if share != NONE else "",
        strokes(edges, color=SOFT, width=0.8),
        rect(within(box, share), fill="none", stroke=INK, radius=0) if share != NONE else "",
    )


def level(y: float, number: int) -> float:
    """Return the upper edge of a layer; the first layer is the lowest."""
    return y + 29 + PITCH * (LAYERS - 1 - number)


def process(way: str, who: int, x: float, y: float) -> str:
    """Draw a process: its part of the layers and, below, its part of the batch."""
    card = Box(x, y, CARD_W, CARD_H)
    stack = card.cx - MATRIX - 3
    apart = CELL + 3 * (way == "pipeline")  # there the texts come one after another
    top, batch = y + 137 - apart * ROWS / 2, card.cx - LENGTH * CELL / 2
    texts = [(row, reads(way, who, row)) for row in range(ROWS)]
    return group(
        rect(card, radius=9),
        centered(card.cx, y + 15, f"process {who}"),
        *(
            layer(stack, level(y, i), has(way, who, i), borrows=way == "sharded" and i == 1)
            for i in range(LAYERS)
        ),
        *(
            sentence(Box(batch, top + apart * row, LENGTH * CELL, CELL), share)
            for row, share in sorted(texts, key=lambda one: one[1] != NONE)
        ),
    )


def both(x: float, y: float, color: str = LINE, added: bool = False) -> str:
    """Draw data that goes both ways between two processes, with a plus if it is added."""
    middle, reach = x + CARD_W + APART / 2, APART / 2 - 3
    return group(
        arrow([(middle + 2, y), (middle - reach, y)], color=color),
        arrow([(middle - 2, y), (middle + reach, y)], color=color),
        plus(middle, y) if added else "",
    )


def travel(way: str, x: float, y: float) -> str:
    """Draw the data that goes from one process to the other."""
    heights = [level(y, i) + (PITCH - 5) / 2 for i in range(LAYERS)]
    if way == "data":
        return both(x, sum(heights) / LAYERS, added=True)
    if way == "sharded":
        return both(x, heights[1])
    if way == "tensor":
        return group(*(both(x, height, added=True) for height in heights))
    if way == "context":
        ways = [(h + d, color) for h in heights for d, color in ((-4.5, KEY), (4.5, VALUE))]
        names, middle = (("K", KEY, -8), ("V", VALUE, 8)), x + CARD_W + APART / 2
        return group(
            *(both(x, height, color) for height, color in ways),
            *(
                centered(middle + d, y + 15, name, bold=True, color=shade(color))
                for name, color, d in names
            ),
        )
    start, end, low, high = x + CARD_W + 3, x + CARD_W + APART - 3, heights[1], heights[2]
    return group(
        arrow([(start, low - 5), (end, high - 5)]),
        arrow([(end, high + 9), (start, low + 9)], dash="4 3"),
    )


def panel(way: str, x: float, y: float) -> str:
    """Draw one way to share: its name, two processes, their communication and their savings."""
    return group(
        text(x, y - 10, NAMES[way], bold=True),
        *(process(way, who, x + (CARD_W + APART) * who, y) for who in range(2)),
        travel(way, x, y),
        lines(x, y + CARD_H + 19, f"sent: {SENT[way]}\nsaves: {SAVED[way]}"),
    )


def schedule(who: int) -> list[tuple[int, int, int]]:
    """List the start, duration and micro-batch of each task of a pipeline's process."""
    turn = ROWS + 1 + BACK * (1 - who)
    ahead = [(who + i, 1, i + 1) for i in range(ROWS)]
    return ahead + [(turn + BACK * i, BACK, ROWS - i) for i in range(ROWS)]


def timeline(x: float, y: float) -> str:
    """Draw when the two processes of a pipeline work, and when they wait."""
    parts = []
    for who in range(2):
        top, busy = y + 30 * who, schedule(who)
        taken = {t for start, long, _ in busy for t in range(start, start + long)}
        times = [Box(x + 18 + UNIT * t, top, UNIT, 24) for t in range(TIMES)]
        parts += [text(x, top + 17, f"{who}")]
        parts += [blocked(box) for t, box in enumerate(times) if t not in taken]
        for start, long, number in busy:
            box, fill = times[start], PAPER if long == 1 else BEHIND
            wide = Box(box.x, box.y, UNIT * long, box.h)
            parts.append(cell(wide, str(number), fill=fill, stroke=INK))
    return group(*parts)


def legend(x: float, y: float) -> str:
    """Explain the squares of the timeline, and the symbols of all panels."""
    ahead, back, waits = (
        Box(x + d, y + down, w, 17)
        for d, down, w in ((0, 0, UNIT), (83, 0, 2 * UNIT), (0, 23, UNIT))
    )
    mine, other = Box(x, y + 98, MATRIX, PITCH - 5), Box(x + 112, y + 98, MATRIX, PITCH - 5)
    idle = Fraction(TIMES - sum(long for _, long, _ in schedule(0)), TIMES)
    return group(
        cell(ahead, stroke=INK),
        text(ahead.right + 6, y + 14, "forward"),
        cell(back, fill=BEHIND, stroke=INK),
        text(back.right + 6, y + 14, "backward"),
        blocked(waits),
        text(waits.right + 6, y + 37, f"waits: {idle} of the time"),
        layer(x, y + 50),
        text(x + 80, y + 63, "a layer: two matrices"),
        sentence(Box(x, y + 78, LENGTH * CELL, CELL), NONE),
        text(x + 80, y + 87, f"a text: {LENGTH} positions"),
        kept(mine),
        text(mine.right + 8, y + 111, "has this"),
        lent(other),
        text(other.right + 8, y + 111, "borrows this"),
    )


def draw() -> str:
    """Draw each way to share one training run between two processes."""
    places = [((LEFT, RIGHT)[i % 2], TOP + DOWN * (i // 2)) for i in range(len(NAMES))]
    top = places[-1][1]
    return page(
        TITLE,
        DESC,
        top + CARD_H + 72,
        *(panel(way, *place) for way, place in zip(NAMES, places, strict=True)),
        text(RIGHT, top - 10, "When processes 0 and 1 work", bold=True),
        timeline(RIGHT, top),
        legend(RIGHT, top + 66),
    )
