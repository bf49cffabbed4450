"""Chapter 07: two hops among six cells, which two layers of attention can follow."""

from colors import INK, KEY, QUERY
from drawing import Box, arrow, centered, group, lines, page, rect, text

TITLE = "Two hops: read the number, go there,\nread again, and go once more"
CELLS = (3, 5, 0, 1, 2, 4)
LEFT, PITCH, TOP = 25, 86, 176  # px: the first cell, the distance between cells, the upper edge
SIZE = 60  # px, of a cell


def middle(cell: int) -> float:
    """Return the x coordinate of the middle of a cell, in px."""
    return LEFT + cell * PITCH + SIZE / 2


def box(cell: int) -> str:
    """Draw a cell: its number inside, and its name below."""
    place = Box(LEFT + cell * PITCH, TOP, SIZE, SIZE)
    return group(
        rect(place),
        centered(place.cx, place.cy, str(CELLS[cell]), size=22),
        text(place.cx, place.bottom + 20, f"cell {cell}", anchor="middle"),
    )


def hop(start: int, end: int, height: float, words: str, color: str) -> str:
    """Draw an arrow over the cells, from a cell to the cell that its number points to."""
    shift = 10 if end > start else -10
    x, y = middle(start) + shift, TOP - height
    return group(
        arrow([(x, TOP - 4), (x, y), (middle(end), y), (middle(end), TOP - 4)], color=color),
        text((x + middle(end)) / 2, y - 8, words, anchor="middle", color=color, bold=True),
    )


def draw() -> str:
    """Draw the cells and the two hops of cell 0."""
    first, second = CELLS[0], CELLS[CELLS[0]]
    return page(
        TITLE,
        "Six boxes in a row with the numbers 3, 5, 0, 1, 2, 4. An arrow goes from cell 0, which "
        "contains 3, to cell 3. A second arrow goes from cell 3, which contains 1, to cell 1, "
        "which contains 5.",
        330,
        *(box(cell) for cell in range(len(CELLS))),
        hop(0, first, 74, "first hop", QUERY),
        hop(first, second, 34, "second hop", KEY),
        lines(
            20,
            288,
            f"Cell 0 contains {CELLS[0]}. After one hop we read {CELLS[first]} in cell {first}.\n"
            f"After two hops we read {CELLS[second]} in cell {second}.",
            color=INK,
        ),
    )
