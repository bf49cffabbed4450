"""Chapter 16: the bug clinic, in which probes distinguish four causes of one symptom."""

from typing import NamedTuple

from colors import INK, LIT_FILL, PAPER, SOFT, mix
from drawing import Box, arrow, centered, group, lines, page, rect, text
from token_cells import cell

TITLE = "One symptom has four causes,\nand a different probe reveals each"
DESC = (
    "A table with four rows, one for each cause of the symptom: a loss near zero and most outputs "
    "wrong. Each row shows a probe, what it measures in a correct and in a broken model, and the "
    "cause. Causality: a later token changes the logits in 0 of 21 cases and in 21 of 21; there is "
    "no causal mask. Padding invariance: padding changes the logits by 0 and by 0.2 of the "
    "largest; the heads are mixed up. Overfit one batch: 100% and 14% are right; the labels are "
    "not shifted. Free running: 9 of 9 tokens and 0 of 3 are those of one pass; the first token "
    "is wrong."
)
LENGTH = 7  # target tokens that the causality probe changes, one after another
NORMAL = mix(SOFT, PAPER, 0.55)


class Row(NamedTuple):
    """A probe, its claim, the fraction that breaks it in a case of the clinic, and the cause."""

    case: str
    probe: str
    claim: str
    cause: str
    right: str
    wrong: str
    share: float  # of the future, of the largest logit, of the tokens


ROWS = (
    Row(
        "loss_near_zero",
        "causality",
        "later tokens do\nnot change logits",
        "no causal mask",
        "0 of 21 do",
        "21 of 21 do",
        1,
    ),
    Row(
        "loss_near_zero_again",
        "padding invariance",
        "padding does\nnot change logits",
        "heads mixed up",
        "changed by 0",
        "by 0.2 of the largest",
        0.2,
    ),
    Row(
        "repeats_what_it_reads",
        "overfit one batch",
        "one batch can\nbe memorized",
        "labels not shifted",
        "100% are right",
        "14% are right",
        0.86,
    ),
    Row(
        "right_with_a_teacher_only",
        "free running",
        "it writes what\none pass predicts",
        "wrong first token",
        "9 of 9 are the same",
        "0 of 3 are the same",
        1,
    ),
)
TOP, FIRST, STEP = 132, 96, 82
PROBE, RIGHT, WRONG, CAUSE = 20, 248, 404, 494  # left, two middles, left
WIDE = 120


def influence(cx: float, y: float, share: float) -> str:
    """Draw a grid that shows which token (across) changes the logits of which position (down)."""
    size = 8
    fill = {True: LIT_FILL if share else PAPER, False: NORMAL}
    return group(
        *(
            cell(
                Box(cx + (j - LENGTH / 2) * size, y + i * size, size, size),
                fill=fill[j > i],
                stroke=INK if share and j > i else SOFT,
            )
            for j in range(LENGTH)
            for i in range(LENGTH)
        )
    )


def bar(cx: float, y: float, share: float) -> str:
    """Draw the fraction that breaks the claim, to the right of the fraction that does not."""
    left = cx - WIDE / 2
    cut = WIDE * (1 - share)
    broken = Box(left + cut, y, WIDE * share, 24)
    return group(
        rect(Box(left, y, cut, 24), fill=NORMAL, stroke=SOFT, radius=0),
        rect(broken, fill=LIT_FILL, stroke=INK, radius=0) if share else "",
    )


def cells(cx: float, y: float, share: float) -> str:
    """Draw the tokens that a model writes; the ones that differ come last."""
    count, size = (3 if share else 9), WIDE / 12
    same = round(count * (1 - share))
    return group(
        *(
            cell(
                Box(cx + (i - count / 2) * size, y, size, 24),
                fill=NORMAL if i < same else LIT_FILL,
                stroke=SOFT if i < same else INK,
            )
            for i in range(count)
        )
    )


def drawn(i: int, row: Row) -> str:
    """Draw a probe with its claim, its two measurements, and the cause."""
    y = TOP + (FIRST + STEP * (i - 1) if i else 0)
    evidence = (influence, bar, bar, cells)[i]
    below = y + (76 if i == 0 else 44)
    found = Box(CAUSE, y + (14 if i == 0 else -2), 134, 36)
    return group(
        text(PROBE, y + 12, row.probe, bold=True),
        lines(PROBE, y + 32, row.claim),
        evidence(RIGHT, y, 0),
        evidence(WRONG, y, row.share),
        centered(RIGHT, below - 5, row.right),
        centered(WRONG, below - 5, row.wrong),
        arrow([(WRONG + WIDE / 2 + 4, found.cy), (found.x - 2, found.cy)]),
        cell(found, row.cause),
    )


def draw() -> str:
    """Draw the symptom, and the evidence for each of its four causes."""
    bottom = TOP + FIRST + STEP * 3
    legend = Box(PROBE, bottom - 6, 24, 20)
    return page(
        TITLE,
        DESC,
        bottom + 52,
        text(PROBE, 84, "Symptom:", bold=True),
        text(PROBE + 88, 84, "the loss is near zero, and most outputs are wrong"),
        *(
            centered(x, TOP - 20, words, bold=True)
            for x, words in (
                (RIGHT, "correct model"),
                (WRONG, "broken model"),
                (CAUSE + 67, "cause"),
            )
        ),
        text(PROBE, TOP - 15, "probe and claim", bold=True),
        *(drawn(i, row) for i, row in enumerate(ROWS)),
        cell(legend, fill=LIT_FILL, stroke=INK),
        text(legend.right + 8, legend.y + 15, "breaks the claim"),
        lines(
            PROBE + 196,
            legend.y + 15,
            "grids: changed tokens run across, logits down;\nmixed-up heads also break causality",
        ),
    )
