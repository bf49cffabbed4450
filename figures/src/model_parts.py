"""The parts of the model, each with the same shape in every drawing."""

from math import pi, sin

from colors import BOX_FILL, INK, KEY, LINE, LIT_FILL, PAPER, QUERY, VALUE, shade
from drawing import Box, arrow, centered, circle, group, lines, path, polygon, rect, text
from token_cells import blocked, cell

EVERYTHING = "all"
PORT = 54  # px between neighbouring arrows into attention
ROLES = (("V", VALUE), ("K", KEY), ("Q", QUERY))  # from left to right, as in the paper's figure 1


def look(chapter: str, lit: str | None) -> dict:
    """Return a part's fill and outline, pale yellow and thick if its chapter is highlighted."""
    if lit in (chapter, EVERYTHING):
        return {"fill": LIT_FILL, "stroke": INK, "width": 2.2}
    return {"fill": BOX_FILL, "stroke": LINE, "width": 1.2}


def around(chapter: str, lit: str | None) -> dict:
    """Return the look of a part with inner parts, white if they are highlighted as well."""
    return look(chapter, lit) | {"fill": LIT_FILL if lit == chapter else PAPER}


def badge(x: float, y: float, chapter: str, lit: str | None = None) -> str:
    """Draw the number of the chapter that builds a part; dark if that chapter is highlighted."""
    on = lit in (chapter, EVERYTHING)
    return group(
        circle(x, y, 11.5, fill=INK if on else PAPER, stroke=INK),
        centered(x, y, chapter, bold=on, color=PAPER if on else INK),
    )


def change(x: float, y: float, number: int, words: str = "") -> str:
    """Draw the number of a change in a dark square, unlike a chapter's, and a label."""
    first = y + 5 - 9.5 * words.count("\n")
    return group(
        rect(Box(x - 9, y - 9, 18, 18), fill=INK, stroke=None, radius=3),
        centered(x, y, str(number), bold=True, color=PAPER),
        lines(x + 14, first, words) if words else "",
    )


def beside(box: Box, chapter: str, lit: str | None, side: str) -> str:
    """Draw a badge in the margin, left or right of a part."""
    return badge(box.x - 14 if side == "left" else box.right + 14, box.cy, chapter, lit)


def block(box: Box, words: str, chapter: str, lit: str | None = None) -> str:
    """Draw a plain part: a box with its name."""
    return group(rect(box, **look(chapter, lit)), centered(box.cx, box.cy, words))


def attention(box: Box, lit: str | None = None, words: str = "attention") -> str:
    """Draw attention (chapter 01) as a shape with round ends."""
    return group(
        rect(box, radius=min(box.h / 2, 26), **around("01", lit)),
        text(box.x + 10, box.cy + 5, words) if words else "",
    )


def sheets(box: Box, lit: str | None = None) -> str:
    """Draw the outline of multi-head attention (chapter 02) as overlapping sheets."""
    behind = [Box(box.x + d, box.y - d, box.w, box.h) for d in (6, 3)]
    return group(*(rect(sheet, **look("02", lit)) for sheet in (*behind, box)))


def multi_head(box: Box, mask: str, lit: str | None = None) -> str:
    """Draw multi-head attention with attention and its mask ("padding" or "both") inside."""
    pill = Box(box.x + 5, box.y + 30, 103, 26)
    return group(
        sheets(box, lit),
        centered(box.cx, box.y + 16, "Multi-head attention"),
        attention(pill, lit),
        badge(pill.right - 13, pill.cy, "01", lit),
        mask_grid(pill.right + 5, pill.y, mask, lit),
        badge(box.right - 14.5, pill.cy, "06", lit),
    )


def mask_grid(x: float, y: float, kind: str, lit: str | None = None) -> str:
    """Draw a small mask (chapter 06): queries down, keys across, blocked cells hatched."""
    size, length, style = 6.5, 4, around("06", lit)
    return group(
        rect(Box(x, y, size * length, size * length), radius=0, **style),
        *(
            cell(box, fill=style["fill"]) if may_look(kind, i, j, length) else blocked(box, width=1)
            for i in range(length)
            for j in range(length)
            for box in [Box(x + j * size, y + i * size, size, size)]
        ),
    )


def may_look(kind: str, query: int, key: int, length: int) -> bool:
    """Return whether a query may look at a key; it may not be padding or, for "both", later."""
    return key < length - 1 and (kind == "padding" or key <= query)


def add_norm(box: Box, lit: str | None = None) -> str:
    """Draw Add & Norm (chapter 04) as a flat strip."""
    return block(box, "Add & norm", "04", lit)


def feed_forward(box: Box, lit: str | None = None, words: str = "Feed forward") -> str:
    """Draw the feed-forward network (chapter 05), which is narrow at both ends."""
    return group(
        polygon(hexagon(box), **look("05", lit)),
        centered(box.cx, box.cy, words) if words else "",
    )


def hexagon(box: Box, slope: float = 0.17) -> list[tuple]:
    """Return the corners of the feed-forward network's shape."""
    inset = slope * box.w
    return [
        (box.x + inset, box.y),
        (box.right - inset, box.y),
        (box.right, box.cy),
        (box.right - inset, box.bottom),
        (box.x + inset, box.bottom),
        (box.x, box.cy),
    ]


def wave(x: float, y: float, lit: str | None = None) -> str:
    """Draw the positional encoding (chapter 03) as one period of a wave in a circle."""
    points = [(x - 10 + 20 * t / 24, y - 6 * sin(2 * pi * t / 24)) for t in range(25)]
    style = look("03", lit)
    return group(circle(x, y, 14, fill=style["fill"], stroke=style["stroke"]), path(points))


def plus(x: float, y: float) -> str:
    """Draw a sum as a plus in a circle."""
    return group(
        circle(x, y, 9),
        path([(x - 5, y), (x + 5, y)]),
        path([(x, y - 5), (x, y + 5)]),
    )


def ports(box: Box, y: float, roles: tuple = ROLES) -> str:
    """Draw the colored arrows V, K and Q from y up to an attention box."""
    where = {name: box.cx + PORT * (i - 1) for i, (name, _) in enumerate(ROLES)}
    return group(
        *(
            group(
                arrow([(where[name], y), (where[name], box.bottom)], color=color, width=2.2),
                text(where[name] + 7, box.bottom + 20, name, bold=True, color=shade(color)),
            )
            for name, color in roles
        )
    )
