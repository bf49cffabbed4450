"""Chapter 14: one step of beam search, and the pool that finished sentences leave for."""

from colours import KEY, VALUE, tint
from drawing import Box, arrow, centred, group, lines, page, text
from token_cells import cell, token

TITLE = "What ends leaves for a pool,\nwhat does not end forms the next beam"
DESC = (
    "Two hypotheses, A with 0.60 and B with 0.40, are continued by every word. Of their best four "
    "continuations B end, 0.36, and A end, 0.24, leave for the pool of finished sentences; A B and "
    "A A, 0.18 each, form the next beam."
)
TOP, STEP = 128, 44
BEAM, NEXT, OUT = 60, 240, 470  # left sides of the three columns
STEPS = (("B end", 0.36, 1), ("A end", 0.24, 0), ("A B", 0.18, 0), ("A A", 0.18, 0))


def hypothesis(i: int) -> Box:
    """Where one of the two hypotheses stands."""
    return Box(BEAM, TOP + STEP * (0.5 + 2 * i), 84, 32)


def continuation(i: int) -> Box:
    """Where the continuation number i stands."""
    return Box(NEXT, TOP + STEP * i, 130, 32)


def continued() -> str:
    """Draw both hypotheses, and lines to what they are continued by."""
    parts = []
    for i, (name, probability) in enumerate((("A", 0.6), ("B", 0.4))):
        box = hypothesis(i)
        parts += [token(box, f"{name} {probability:.2f}", lit=True)]
    for i, (name, probability, before) in enumerate(STEPS):
        start, box = hypothesis(before), continuation(i)
        parts += [
            arrow([(start.right, start.cy), (box.x, box.cy)]),
            cell(box, f"{name}  {probability:.2f}", fill=tint(KEY if i < 2 else VALUE)),
        ]
    return group(*parts)


def leaving() -> str:
    """Draw where the four continuations go."""
    parts = []
    for i in range(len(STEPS)):
        box = continuation(i)
        target = TOP + STEP * (0.5 if i < 2 else 2.5) + 16
        parts += [arrow([(box.right, box.cy), (OUT - 6, target)])]
    return group(
        *parts,
        text(OUT, TOP + STEP * 0.5 + 12, "the pool", bold=True),
        text(OUT, TOP + STEP * 0.5 + 32, "keeps the K best"),
        text(OUT, TOP + STEP * 2.5 + 12, "the next beam", bold=True),
        text(OUT, TOP + STEP * 2.5 + 32, "K go on"),
    )


def draw() -> str:
    """Draw one step with K = 2."""
    bottom = TOP + STEP * len(STEPS)
    return page(
        TITLE,
        DESC,
        bottom + 70,
        centred(hypothesis(0).cx, TOP - 26, "beam, K = 2", bold=True),
        centred(continuation(0).cx, TOP - 26, "the best 2K", bold=True),
        continued(),
        leaving(),
        lines(BEAM, bottom + 26, "Each hypothesis ends in one way only: of 2K at least K go on."),
    )
