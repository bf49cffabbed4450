"""Chapter 02: the reshape that gives every head its own columns, and the one that does not."""

from colors import INK, mix
from drawing import Box, arrow, group, page, text
from token_cells import cell

TITLE = "Split the last axis, then swap two axes:\nevery head gets its columns of every token"
HEADS = ("#CC79A7", "#E69F00", "#56B4E9")  # no roles: three heads
L, D_K, CELL = 2, 2, 28
TOP = 118


def numbers() -> list[list[int]]:
    """Return two tokens whose numbers show their origin: 13 is token 1, column 3."""
    return [[10 * token + column for column in range(D_K * len(HEADS))] for token in range(L)]


def cells(x: float, y: float, rows: list[list[int]], split: float = 0) -> str:
    """Draw a table; each number keeps the color of the head to which its column belongs."""
    parts = []
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            color = HEADS[value % 10 // D_K]
            box = Box(x + j * CELL + (j // D_K) * split, y + i * CELL, CELL, CELL)
            parts.append(cell(box, str(value), fill=mix(color, "#FFFFFF", 0.55), stroke=INK))
    return group(*parts)


def by_head(exchange: bool) -> list[list[list[int]]]:
    """Return the table of each head, with the axes swapped or only by the order in memory."""
    flat = [value for row in numbers() for value in row]
    if exchange:
        return [[row[D_K * h : D_K * (h + 1)] for row in numbers()] for h in range(len(HEADS))]
    tables = [flat[i : i + L * D_K] for i in range(0, len(flat), L * D_K)]
    return [[table[:D_K], table[D_K:]] for table in tables]


def heads(x: float, exchange: bool) -> str:
    """Draw three small tables below each other."""
    return group(
        *(
            group(
                text(x - 10, TOP + 33 + h * 76, f"head {h}", anchor="end"),
                cells(x, TOP + h * 76, table),
            )
            for h, table in enumerate(by_head(exchange))
        )
    )


def draw() -> str:
    """Draw the steps from (L, H·d_k) to (H, L, d_k), and the shortcut that mixes tokens."""
    y = TOP + 76
    return page(
        TITLE,
        "A table of two tokens by six columns, two columns for each of three heads in three "
        "colors. After the split and the swap, every head has its columns of both tokens. With "
        "view alone, head 0 has columns 0 to 3 of token 0 and nothing of token 1.",
        372,
        text(20, TOP - 14, "(L, H · d_k)", bold=True),
        cells(68, y, numbers()),
        *(text(60, y + 19 + i * CELL, f"token {i}", anchor="end") for i in range(L)),
        arrow([(241, y + CELL), (264, y + CELL)], width=2.2),
        text(354, TOP - 14, "(H, L, d_k)", anchor="middle", bold=True),
        heads(326, exchange=True),
        text(488, TOP - 14, "view alone", anchor="middle", bold=True),
        heads(460, exchange=False),
        text(20, 356, "Both results have the right shape, but view alone mixes the tokens."),
    )
