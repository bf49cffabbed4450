"""Chapter 26: the same attention, computed in two ways that move different amounts of data."""

from dataclasses import dataclass

from colors import BOX_FILL, INK, KEY, LINE, LIT_FILL, PAPER, QUERY, VALUE, mix, shade, tint
from drawing import Box, arrow, centered, group, lines, page, rect, strokes, text

TITLE = "FlashAttention moves a ninth of the bytes,\nbecause no T × S matrix goes through memory"
DESC = (
    "Two rows, each with the processor's steps above and the computer's memory below: Q Kᵀ, "
    "scale, mask, softmax, times V. An arrow for every trip is as thick as its bytes. One step at "
    "a time: after every step but the last, a thick arrow goes down to four T × S matrices, and "
    "another one up to the next step. FlashAttention: one long box around all steps, with small "
    "blocks of scores inside; only Q, K and V come up and the output goes down. Bars compare the "
    "bytes, from row to row:"
)
NOTE = (
    "Drawn for 4 heads of width 2, and T = S = 8.\n"
    "With 8 heads, T = S = 512 and 32 texts, the matrices of one step\n"
    "fill 256 MiB, more than most processors' caches can hold."
)
STAYS = "scores and weights stay on the chip"
STEPS = ("Q Kᵀ", "scale", "mask", "softmax", "· V")
APART = tuple((i,) for i in range(len(STEPS)))  # every step is a separate pass
WHOLE = (tuple(range(len(STEPS))),)
TABLES = ("scores", "scaled", "masked", "weights")  # the result of each step but the last
HEADS, LENGTH, WIDTH = 4, 8, 2  # H; T and S; d_k and d_v
KIB = 1024  # bytes
CELL, THICK, LONG = 2, 12, 8  # px: a number in its table; an arrow and a bar for each KiB
LEFT, LANE = 88, 435  # where the steps begin, and how wide the five are
STEP, GAP = 79, 10  # px: a step, and from it to the next
TOP, ROW, LINE_H, TRIP = 104, 145, 24, 31  # first way, next way, a step, from it to memory
BARS = 392


@dataclass(frozen=True)
class Way:
    """One way to compute attention.

    Args:
        name: Its name.
        words: A description of it.
        passes: Groups of steps, in which the numbers stay in the processor.
        size: Bytes of a number.
    """

    name: str
    words: str
    passes: tuple = APART
    size: int = 4

    @property
    def table(self) -> float:
        """Return the KiB of a table for all heads."""
        return HEADS * LENGTH**2 * self.size / KIB

    @property
    def vectors(self) -> float:
        """Return the KiB of all heads' queries (or their keys, values or results)."""
        return HEADS * LENGTH * WIDTH * self.size / KIB

    @property
    def moved(self) -> float:
        """Return the KiB moved: Q, K, V and results once, tables twice."""
        return 4 * self.vectors + 2 * (len(self.passes) - 1) * self.table


WAYS = (
    Way("One step at a time", "every T × S matrix is written"),
    Way("FlashAttention", "no T × S matrix is written", WHOLE),
)


def numbers(x: float, y: float, columns: int, rows: int, size: float = CELL, **look: str) -> str:
    """Draw a table of numbers, so small that only its grid is visible."""
    w, h = columns * size, rows * CELL
    grid = [[(x + size * i, y), (x + size * i, y + h)] for i in range(1, columns)]
    grid += [[(x, y + CELL * i), (x + w, y + CELL * i)] for i in range(1, rows)]
    look = dict(fill=LIT_FILL, stroke=INK) | look
    box = Box(x, y, w, h)
    return group(
        rect(box, fill=look["fill"], stroke=None, radius=0),
        strokes(grid, color=mix(look["stroke"], look["fill"], 0.3), width=0.3),
        rect(box, fill="none", stroke=look["stroke"], width=1, radius=0),
    )


def heads(x: float, y: float, columns: int, way: Way, **look: str) -> str:
    """Draw one table for each head, side by side and centered at x."""
    size = CELL * way.size / 4
    pitch = columns * size + 1.5
    first = x - (HEADS * pitch - 1.5) / 2
    return group(
        *(numbers(first + pitch * i, y, columns, LENGTH, size, **look) for i in range(HEADS))
    )


def role(color: str) -> dict:
    """Return the fill and outline of numbers with a role."""
    return dict(fill=tint(color), stroke=color)


def trip(x: float, memory: float, kib: float, *, down: bool = False, color: str = LINE) -> str:
    """Draw an arrow between a step and the memory below it, as thick as its bytes."""
    ends = [(x, memory + 4), (x, memory - TRIP + 1)]
    ends = [(x, memory - TRIP), (x, memory + 3)] if down else ends
    return arrow(ends, color=color, width=THICK * kib)


def header(way: Way, y: float) -> str:
    """Write the name of a way, followed by a bar whose length shows its bytes."""
    long = LONG * way.moved
    return group(
        text(20, y, way.name, bold=True),
        text(174, y, way.words),
        rect(Box(BARS, y - 12, long, 14), fill=LINE, stroke=None, radius=0),
        text(BARS + long + 8, y, f"{way.moved:g} KiB", bold=True),
    )


def lanes(line: float, memory: float, height: float) -> str:
    """Draw the memory, and label the processor."""
    return group(
        rect(Box(10, memory, 520, height), fill=BOX_FILL, radius=6),
        text(16, line + 17, "processor"),
        text(16, memory + height / 2 + 5, "memory"),
    )


def place(i: int) -> float:
    """Find the left edge of a step."""
    return LEFT + (STEP + GAP) * i


def worked(way: Way, line: float) -> str:
    """Draw the steps, with a box for each pass and the numbers that stay in it between steps."""
    parts = []
    for steps in way.passes:
        x, end = place(steps[0]), place(steps[-1]) + STEP
        parts.append(rect(Box(x, line, end - x, LINE_H), fill=PAPER, stroke=INK))
        for i in steps[:-1]:
            left, top = place(i + 1) - GAP / 2 - 2 * CELL, line + LINE_H / 2
            parts.append(numbers(left, top - 2 * CELL, 4, 4))
    return group(
        *parts,
        *(centered(place(i) + STEP / 2, line + LINE_H / 2, words) for i, words in enumerate(STEPS)),
    )


def written(way: Way, memory: float) -> str:
    """Draw the tables that are written after one pass and read before the next."""
    parts, width = [], THICK * way.table
    for steps in way.passes[:-1]:
        i, middle = steps[-1], place(steps[-1] + 1) - GAP / 2
        away = 8 + width
        parts += [
            heads(middle, memory + 7, LENGTH, way),
            centered(middle, memory + 38, TABLES[i]),
            trip(middle - away, memory, way.table, down=True),
            trip(middle + away, memory, way.table),
        ]
    return group(*parts)


def at_once(way: Way, y: float) -> str:
    """Draw all heads together, with one step or several steps in each pass."""
    line = y + 14
    memory = line + LINE_H + TRIP
    ends = ((11, "Q", QUERY, False), (35, "K", KEY, False))
    ends += ((LANE - 36, "V", VALUE, False), (LANE - 11, "out", VALUE, True))
    empty = centered(place(2) + STEP / 2, memory + 24, STAYS)
    return group(
        header(way, y),
        lanes(line, memory, 48),
        worked(way, line),
        written(way, memory) if len(way.passes) > 1 else empty,
        *(
            group(
                heads(LEFT + x, memory + 7, WIDTH, way, **role(color)),
                centered(LEFT + x, memory + 38, name, bold=name != "out", color=shade(color)),
                trip(LEFT + x, memory, way.vectors, down=down, color=color),
            )
            for x, name, color, down in ends
        ),
    )


def legend(y: float) -> str:
    """Explain a table and the width of an arrow, and state the sizes in the drawing."""
    return group(
        numbers(20, y - 15, LENGTH, LENGTH),
        text(44, y, "a head's matrix, T × S"),
        numbers(214, y - 9, 4, 4),
        text(230, y, "a part of it"),
        arrow([(318, y - 5), (354, y - 5)], width=THICK),
        text(360, y, "1 KiB, written or read"),
        lines(20, y + 27, NOTE),
    )


def draw() -> str:
    """Draw each way: its steps above, the memory below, and an arrow for every transfer."""
    tops = [TOP + ROW * i for i in range(len(WAYS))]
    end, sizes = tops[-1] + ROW + 16, ", ".join(f"{way.moved:g}" for way in WAYS)
    return page(
        TITLE,
        f"{DESC} {sizes} KiB.",
        end + 81,
        text(BARS, TOP - 22, "bytes that travel"),
        *(at_once(way, y) for way, y in zip(WAYS, tops, strict=True)),
        legend(end),
    )
