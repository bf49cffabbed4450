"""Chapter 17: real sentences of different lengths, and batches with little padding."""

from colors import INK, LIT_FILL
from drawing import Box, group, page, rect, text
from token_cells import blocked, cell

TITLE = (
    "Sort sentences by length and count the positions of\n"
    "each batch, and hardly a position is wasted"
)
LENGTHS = (5, 13, 5, 7, 8, 15, 5, 4, 4, 7, 5, 8)  # tokens of each sentence, in random order
FOUND = (5, 7)  # a long and a short sentence, marked so that readers find them on both sides
BATCH_SIZE = 4  # sentences in a batch on the left
TOKENS = 32  # maximum positions in a batch on the right, padding included
LEFT, RIGHT, TOP = 20, 290, 158  # where the two columns of batches begin
CELL, LABEL, GAP = 15, 8, 36  # GAP from batch to batch, with room for a line of words


def dealt() -> list[list[int]]:
    """Split the sentences into batches in their given order."""
    return [list(range(i, i + BATCH_SIZE)) for i in range(0, len(LENGTHS), BATCH_SIZE)]


def sorted_and_cut() -> list[list[int]]:
    """Split the sentences, shortest first, into batches that are as full as possible."""
    batches = [[]]
    for i in sorted(range(len(LENGTHS)), key=LENGTHS.__getitem__):
        if (len(batches[-1]) + 1) * LENGTHS[i] > TOKENS:
            batches.append([])
        batches[-1].append(i)
    return batches


def width(batch: list[int]) -> int:
    """Return the positions in each row of a batch, which is the length of its longest sentence."""
    return max(LENGTHS[i] for i in batch)


def positions(batches: list[list[int]]) -> int:
    """Count the computed positions."""
    return sum(len(batch) * width(batch) for batch in batches)


def tokens(x: float, y: float, length: int, *, found: bool = False) -> str:
    """Draw the tokens of a sentence, with a thick outline if it is one of the marked sentences."""
    boxes = [Box(x + CELL * k, y, CELL, CELL) for k in range(length)]
    if not found:
        return group(*(cell(box) for box in boxes))
    outline = rect(Box(x, y, CELL * length, CELL), fill="none", stroke=INK, width=2.4, radius=0)
    return group(*(cell(box, fill=LIT_FILL) for box in boxes), outline)


def rectangle(x: float, y: float, batch: list[int]) -> str:
    """Draw a batch: a line that states its size, and a row for each sentence."""
    long, tops = width(batch), [y + CELL * row for row in range(len(batch))]
    rows = sorted(zip(batch, tops, strict=True), key=lambda row: row[0] in FOUND)  # marked last
    empty = [Box(x + CELL * k, top, CELL, CELL) for i, top in rows for k in range(LENGTHS[i], long)]
    return group(
        text(x, y - LABEL, f"{len(batch)} × {long} = {len(batch) * long} positions"),
        *(blocked(box) for box in empty),
        *(tokens(x, top, LENGTHS[i], found=i in FOUND) for i, top in rows),
    )


def column(x: float, name: str, rule: str, batches: list[list[int]]) -> str:
    """Draw one way to fill batches and, below it, the computed positions and their padding."""
    above = [sum(map(len, batches[:i])) for i in range(len(batches))]
    end, computed = bottom(batches), positions(batches)
    padding = computed - sum(LENGTHS)
    return group(
        text(x, TOP - 64, name, bold=True),
        text(x, TOP - 44, rule),
        *(
            rectangle(x, TOP + CELL * rows + GAP * i, batch)
            for i, (rows, batch) in enumerate(zip(above, batches, strict=True))
        ),
        text(x, end + 28, f"{computed} positions computed,"),
        text(x, end + 48, f"{padding} of them padding: {padding / computed:.0%}", bold=True),
    )


def bottom(batches: list[list[int]]) -> float:
    """Find the lower edge of the last batch."""
    return TOP + CELL * len(LENGTHS) + GAP * (len(batches) - 1)


def legend(y: float) -> str:
    """Explain the cells."""
    one, none = Box(LEFT, y - 13, CELL, CELL), Box(120, y - 13, CELL, CELL)
    return group(
        cell(one),
        text(one.right + 10, y, "token"),
        blocked(none),
        text(none.right + 10, y, "padding"),
        tokens(230, y - 13, 3, found=True),
        text(230 + 3 * CELL + 10, y, "a sentence to find on both sides"),
    )


def described() -> str:
    """Describe the drawing for readers who cannot see it."""
    before, after = dealt(), sorted_and_cut()
    shapes = [", ".join(f"{len(b)} by {width(b)}" for b in way) for way in (before, after)]
    lost = [(positions(way) - sum(LENGTHS), positions(way)) for way in (before, after)]
    return (
        f"The same {len(LENGTHS)} sentences as rows of cells, one for each token, in two columns "
        f"of {len(before)} rectangles. On the left, in random order, every rectangle has "
        f"{BATCH_SIZE} rows ({shapes[0]}), and beside each long row the short ones are filled up "
        f"with hatched padding: {lost[0][0]} of {lost[0][1]} positions. On the right, sorted "
        f"by length and cut at {TOKENS} positions, many short rows or few long ones make a "
        f"rectangle ({shapes[1]}), and only {lost[1][0]} of {lost[1][1]} positions are padding. A "
        "short and a long sentence are marked on both sides."
    )


def draw() -> str:
    """Draw the same sentences in random batches, and in sorted batches that are split by tokens."""
    end = max(bottom(dealt()), bottom(sorted_and_cut()))
    return page(
        TITLE,
        described(),
        end + 120,
        column(LEFT, "in random order", f"{BATCH_SIZE} sentences in a batch", dealt()),
        column(
            RIGHT, "sorted by length", f"at most {TOKENS} positions in a batch", sorted_and_cut()
        ),
        legend(end + 92),
    )
