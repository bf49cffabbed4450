"""Chapter 14: a whole beam search with K = 2, as a tree of words."""

from typing import NamedTuple

from colours import INK, LINE, LIT_FILL, SOFT, VALUE, tint
from drawing import Box, arrow, centred, group, page, rect, text
from token_cells import cell, token

TITLE = "Beam search keeps a second hypothesis,\nand it becomes the best sentence"
DESC = (
    "A tree of words in four steps. Each step shows the best four continuations of two hypotheses. "
    "Step 1: it 0.5 and rain 0.3 are kept; snow 0.15 and end 0.05 are dropped. Step 2: rain falls "
    "0.27 and it is 0.25 are kept; it rains 0.15 and it end 0.1 are dropped. Step 3: rain falls "
    "end 0.189 leaves for the pool, it is raining 0.15 and it is wet 0.1 are kept, and rain falls "
    "again 0.081 is dropped. Step 4: it is raining end 0.135 and it is wet end 0.09 leave for the "
    "pool, whose two best sentences are rain falls 0.189 and it is raining 0.135."
)
WEATHER = {  # the chapter's toy language: what follows each word
    "start": {"it": 0.5, "rain": 0.3, "snow": 0.15, "end": 0.05},
    "it": {"is": 0.5, "rains": 0.3, "end": 0.2},
    "rain": {"falls": 0.9, "end": 0.1},
    "is": {"raining": 0.6, "wet": 0.4},
    "falls": {"end": 0.7, "again": 0.3},
    "raining": {"end": 0.9, "again": 0.1},
    "wet": {"end": 0.9, "again": 0.1},
}
K = 2
STEPS = 4
TOP, ROW, LEFT, COLUMN = 112, 50, 24, 154
WIDE, HIGH = 118, 32


class Grown(NamedTuple):
    """One of the best 2K continuations of a step."""

    word: str
    total: float
    before: int | None  # the row of what it extends, in the column before
    fate: str  # "kept", "pool" or "dropped"


def search() -> list[list[Grown]]:
    """Return the best 2K continuations of every step, best first."""
    columns, beam = [], [("start", 1.0, None)]
    for step in range(STEPS):
        grown = [
            (total * probability, word, row)
            for last, total, row in beam
            for word, probability in WEATHER[last].items()
        ]
        best = sorted(grown, reverse=True)[: 2 * K]
        going = [i for i, (_, word, _) in enumerate(best) if word != "end"][:K]
        going = going if step < STEPS - 1 else []  # the search is over
        fates = ["kept" if i in going else "dropped" for i in range(len(best))]
        fates[:K] = [
            "pool" if word == "end" else fate
            for (_, word, _), fate in zip(best[:K], fates[:K], strict=True)
        ]
        columns.append(
            [
                Grown(word, total, row, fate)
                for (total, word, row), fate in zip(best, fates, strict=True)
            ]
        )
        beam = [(best[i][1], best[i][0], i) for i in going]
    return columns


def box(step: int, row: int) -> Box:
    """Return where a continuation is drawn."""
    return Box(LEFT + COLUMN * step, TOP + ROW * row, WIDE, HIGH)


def continuation(step: int, row: int, grown: Grown) -> str:
    """Draw one continuation, and the arrow from what it extends."""
    place, words = box(step, row), f"{grown.word} {round(grown.total, 3):g}"
    if grown.fate == "kept":
        drawn = token(place, words, lit=True)
    elif grown.fate == "pool":
        drawn = cell(place, words, fill=tint(VALUE), stroke=VALUE)
    else:
        drawn = centred(place.cx, place.cy, words)
    if grown.before is None:
        return drawn
    start = box(step - 1, grown.before)
    colour = SOFT if grown.fate == "dropped" else LINE
    return group(
        arrow([(start.right + 2, start.cy), (place.x - 2, place.cy)], colour=colour), drawn
    )


def legend(top: float) -> str:
    """Draw what the three forms mean."""
    kept, pool = Box(LEFT, top, 24, 20), Box(LEFT + 196, top, 24, 20)
    return group(
        rect(kept, fill=LIT_FILL, stroke=INK, width=2.2, radius=7),
        text(kept.right + 8, top + 15, "kept in the beam"),
        cell(pool, "", fill=tint(VALUE), stroke=VALUE),
        text(pool.right + 8, top + 15, "leaves for the pool"),
        text(LEFT + 406, top + 15, "without a frame: dropped"),
    )


def draw() -> str:
    """Draw all steps of a search with K = 2."""
    columns, bottom = search(), TOP + ROW * 2 * K
    return page(
        TITLE,
        DESC,
        bottom + 82,
        *(
            centred(box(step, 0).cx, TOP - 22, f"step {step + 1}", bold=True)
            for step in range(STEPS)
        ),
        *(
            continuation(step, row, grown)
            for step, column in enumerate(columns)
            for row, grown in enumerate(column)
        ),
        legend(bottom + 4),
        text(LEFT, bottom + 58, "The pool at the end:", bold=True),
        text(LEFT + 168, bottom + 58, "rain falls 0.189, it is raining 0.135"),
    )
