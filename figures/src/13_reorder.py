"""Chapter 13: the rows of a cache before and after a reordering."""

from colors import INK
from drawing import Box, arrow, centered, group, page, text
from token_cells import token

TITLE = (
    "Each new row continues an old one: [0, 2] drops row 1,\n"
    "and [0, 0, 2] also continues row 0 twice"
)
DESC = (
    "Two panels. Before, the rows are [bos] drei, [bos] sechs and [bos] neun. "
    "After reorder([0, 2]) they are [bos] drei and [bos] neun. "
    "After reorder([0, 0, 2]) they are [bos] drei, [bos] drei and [bos] neun. "
    "Arrows lead from the old rows to the new ones; none starts at [bos] sechs."
)
WORDS = ("drei", "sechs", "neun")
TOP, PITCH, WIDTH = 116, 42, 50
BEFORE, AFTER = 18, 186  # where the rows begin in a panel


def row(x: float, i: int, word: str, lit: bool) -> str:
    """Draw the two tokens of row i."""
    boxes = [Box(x + WIDTH * j, TOP + PITCH * i, WIDTH, 30) for j in range(2)]
    return group(
        centered(x - 12, boxes[0].cy, str(i)),
        token(boxes[0], "[bos]", lit=lit),
        token(boxes[1], word, lit=lit),
    )


def panel(left: float, rows: tuple[int, ...]) -> str:
    """Draw the rows before and after one reordering."""
    before, after = left + BEFORE, left + AFTER
    height = [TOP + PITCH * i + 15 for i in range(3)]
    return group(
        text(before, TOP - 18, "before"),
        text(after, TOP - 18, "after", bold=True),
        *(row(before, i, word, lit=i in rows) for i, word in enumerate(WORDS)),
        *(row(after, new, WORDS[old], lit=True) for new, old in enumerate(rows)),
        *(
            arrow([(before + 2 * WIDTH + 6, height[old]), (after - 24, height[new])], color=INK)
            for new, old in enumerate(rows)
        ),
        text(before, TOP + 3 * PITCH + 16, f"reorder({list(rows)})", bold=True),
    )


def draw() -> str:
    """Draw two reorderings of the same three rows."""
    return page(TITLE, DESC, TOP + 3 * PITCH + 40, panel(14, (0, 2)), panel(326, (0, 0, 2)))
