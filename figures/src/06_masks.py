"""Chapter 06: the two masks and what they allow together."""

from colors import INK, KEY, QUERY, shade
from drawing import Box, centered, circle, group, page, text
from token_cells import blocked, cell

TITLE = "The padding mask hides the keys that are padding,\nand the causal mask hides later keys"
DESC = (
    "Three tables with queries down and keys across, a dot where a query may look. Padding "
    "hatches the last column, causal hatches everything above the diagonal, and the two together "
    "hatch every cell that one of them hatches."
)
TARGET = ("[bos]", "drei", "hundert", "fünf", "[pad]")
CELL, LEFT, TOP, PITCH = 26, 82, 156, 156
LENGTH = len(TARGET)
SIDE = CELL * LENGTH


def padding(query: int, key: int) -> bool:
    """Return whether the key is a real token."""
    return TARGET[key] != "[pad]"


def causal(query: int, key: int) -> bool:
    """Return whether the key is not later than the query."""
    return key <= query


def both(query: int, key: int) -> bool:
    """Return whether both masks allow the query to look at the key (& in the code)."""
    return padding(query, key) and causal(query, key)


def table(x: float, name: str, may_look) -> str:
    """Draw a mask: a dot where the query of the row may look at the key of the column."""
    return group(
        *(square(x, i, j, may_look(i, j)) for i in range(LENGTH) for j in range(LENGTH)),
        *(text(x + CELL * (j + 0.5) + 5, TOP - 8, word, turn=-90) for j, word in enumerate(TARGET)),
        text(x + SIDE / 2, TOP + SIDE + 26, name, anchor="middle", bold=True),
    )


def square(x: float, query: int, key: int, allowed: bool) -> str:
    """Draw one cell of a mask: a dot for True, a hatch for False."""
    box = Box(x + CELL * key, TOP + CELL * query, CELL, CELL)
    if not allowed:
        return blocked(box)
    return group(cell(box), circle(box.cx, box.cy, 4.5, fill=INK, stroke=INK))


def legend(y: float) -> str:
    """Explain a dot and a hatched cell."""
    box, hatch = Box(82, y - 16, 22, 22), Box(270, y - 16, 22, 22)
    return group(
        cell(box),
        circle(box.cx, box.cy, 4.5, fill=INK, stroke=INK),
        text(box.right + 10, y, "True: may look"),
        blocked(hatch),
        text(hatch.right + 10, y, "False: blocked, weight 0"),
    )


def draw() -> str:
    """Draw the padding mask, the causal mask, and their combination."""
    starts = [LEFT + PITCH * i for i in range(3)]
    masks = (("padding", padding), ("causal", causal), ("both", both))
    middle = TOP + SIDE / 2
    return page(
        TITLE,
        DESC,
        TOP + SIDE + 92,
        *(table(x, *mask) for x, mask in zip(starts, masks, strict=True)),
        *(
            text(LEFT - 10, TOP + CELL * (i + 0.5) + 5, word, anchor="end")
            for i, word in enumerate(TARGET)
        ),
        *(
            centered(x - (PITCH - SIDE) / 2, middle, sign, size=22, bold=True)
            for x, sign in zip(starts[1:], "&=", strict=True)
        ),
        text(LEFT - 10, TOP - 10, "query ↓", anchor="end", bold=True, color=shade(QUERY)),
        text(LEFT - 10, TOP - 34, "key →", anchor="end", bold=True, color=shade(KEY)),
        legend(TOP + SIDE + 66),
    )
