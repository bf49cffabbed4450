"""Chapter 22: how we convert a matrix from a published file before our class can use it."""

from colors import INK, LINE, LIT_FILL, PAPER
from drawing import Box, arrow, group, lines, page, text
from token_cells import cell

TITLE = (
    "A published matrix has the same numbers as ours,\nbut its rows or axes may be in another order"
)
DESC = (
    "Two matrices whose cells name their row and column. On the left, six rows of Llama's query "
    "matrix: the file's rows 0, 1, 2, 3, 4, 5 become rows 0, 3, 1, 4, 2, 5 of our class, so that "
    "the rows 0 and 3, which RoPE turns together, become neighbors. On the right GPT-2's "
    "feed-forward matrix with four rows and six columns: it is transposed, so that its row 0 "
    "becomes our column 0."
)
D_MODEL, D_K, D_FF = 4, 6, 6
ROTATED = (0, D_K // 2)  # RoPE rotates these two rows of the file together
ROW, LETTERS, TOP = 26, 23, 172
WHERE = ("in the file", "in our class")
NOTE = "Each cell shows its row and column in the file.\nOther tensors are only copied."
Table = list[list[str]]


def matrix(rows: int, columns: int) -> Table:
    """Return a table in which every cell contains the digits of its row and column."""
    return [[f"{row}{column}" for column in range(columns)] for row in range(rows)]


def to_neighbours(rows: Table) -> Table:
    """Interleave the rows of a head's two halves: 0, d_k / 2, 1, d_k / 2 + 1, …"""
    half = len(rows) // 2
    return [rows[i + second] for i in range(half) for second in (0, half)]


def transposed(rows: Table) -> Table:
    """Return the columns as rows."""
    return [list(column) for column in zip(*rows, strict=True)]


def table(x: float, rows: Table, lit: tuple[int, ...]) -> str:
    """Draw a matrix, and highlight the cells that come from these rows of the file."""
    return group(
        *(
            cell(
                Box(x + j * LETTERS, TOP + i * ROW, LETTERS, ROW),
                words,
                fill=LIT_FILL if int(words[0]) in lit else PAPER,
            )
            for i, row in enumerate(rows)
            for j, words in enumerate(row)
        )
    )


def panel(x: float, heading: str, names: tuple[str, str], why: str, *columns: float) -> str:
    """Write the text above and below a pair of matrices."""
    return group(
        text(x, 98, heading, bold=True),
        *(
            group(text(left, 126, where), text(left, 148, name, color=LINE))
            for left, where, name in zip(columns, WHERE, names, strict=True)
        ),
        lines(x, TOP + 6 * ROW + 32, why),
    )


def reordered(x: float) -> str:
    """Draw the query matrix of one head, whose rows are reordered."""
    theirs, ours = matrix(D_K, D_MODEL), to_neighbours(matrix(D_K, D_MODEL))
    right = x + D_MODEL * LETTERS
    other = right + 40
    ways = [
        arrow(
            [
                (right + 3, TOP + (i + 0.5) * ROW),
                (other - 3, TOP + (ours.index(row) + 0.5) * ROW),
            ],
            color=INK if i in ROTATED else LINE,
            width=2.6 if i in ROTATED else 1.2,
        )
        for i, row in enumerate(theirs)
    ]
    return group(
        panel(
            x,
            "Other Llama files: reordered",
            ("q_proj.weight", "w_q.weight"),
            "RoPE rotates pairs of rows.\nIn the file they are half a head\n"
            "apart; in our class, neighbors.",
            x,
            other,
        ),
        table(x, theirs, ROTATED),
        *ways,
        table(other, ours, ROTATED),
    )


def turned(x: float) -> str:
    """Draw a feed-forward matrix, which is transposed."""
    theirs = matrix(D_MODEL, D_FF)
    right = x + D_FF * LETTERS
    other = right + 22
    return group(
        panel(
            x,
            "GPT-2: transposed",
            ("c_fc.weight", "linear1.weight"),
            "GPT-2 writes a layer's matrix as\n(in, out); nn.Linear keeps it as\n(out, in).",
            x,
            other,
        ),
        table(x, theirs, (0,)),
        arrow([(right + 4, TOP + 2 * ROW), (other - 4, TOP + 2 * ROW)], width=2.6),
        table(other, transposed(theirs), (0,)),
    )


def draw() -> str:
    """Draw a matrix whose rows are reordered, and one that is transposed."""
    bottom = TOP + 6 * ROW
    return page(
        TITLE,
        DESC,
        bottom + 150,
        reordered(20),
        turned(270),
        lines(20, bottom + 112, NOTE),
    )
