"""Chapter 16: the bug clinic, where one symptom has many causes and a probe tells them apart."""

from colours import KEY, QUERY, VALUE, tint
from drawing import Box, arrow, centred, group, lines, page
from token_cells import cell

TITLE = "A probe leads from the symptom to the cause"
DESC = (
    "Three columns. One symptom, a loss near zero and most outputs wrong, leads to four probes. "
    "Each probe that sounds an alarm leads to one cause: causality to a missing mask, causality "
    "with padding invariance to heads joined without transpose, overfit one batch to labels that "
    "are not shifted, free running to decoding that starts from padding."
)
TOP, STEP = 108, 62
SYMPTOM, PROBE, CAUSE = 24, 216, 424  # left sides of the three columns
ROWS = (
    ("causality", "no causal mask"),
    ("causality, padding", "heads mixed up"),
    ("overfit one batch", "labels not shifted"),
    ("free running", "wrong first token"),
)


def draw() -> str:
    """Draw one symptom, four probes and four causes."""
    bottom = TOP + STEP * len(ROWS)
    symptom = Box(SYMPTOM, TOP + STEP * 1.5 - 16, 166, 66)
    parts = []
    for i, (probe, cause) in enumerate(ROWS):
        asked, found = Box(PROBE, TOP + STEP * i, 166, 36), Box(CAUSE, TOP + STEP * i, 176, 36)
        parts += [
            arrow([(symptom.right, symptom.cy), (asked.x, asked.cy)]),
            cell(asked, probe, fill=tint(KEY)),
            arrow([(asked.right, asked.cy), (found.x, found.cy)]),
            cell(found, cause, fill=tint(VALUE)),
        ]
    return page(
        TITLE,
        DESC,
        bottom + 40,
        centred(symptom.cx, TOP - 20, "symptom", bold=True),
        centred(PROBE + 83, TOP - 20, "probe that sounds", bold=True),
        centred(CAUSE + 88, TOP - 20, "cause", bold=True),
        cell(symptom, "", fill=tint(QUERY)),
        lines(SYMPTOM + 10, symptom.y + 28, "loss near zero,\nmost outputs wrong"),
        group(*parts),
        lines(
            SYMPTOM,
            bottom + 10,
            "Four causes look the same from outside; what sounds tells them apart.",
        ),
    )
