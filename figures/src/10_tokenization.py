"""Chapter 10: the merges that turn the letters of a new word into tokens, and their ids."""

from colors import INK
from drawing import Box, arrow, centered, group, page, text
from token_cells import token

TITLE = (
    "Merges learned from other words, applied in order,\nturn the letters of a new word into tokens"
)
DESC = (
    "Six rows. The first shows the nine letters of the word sixteenth. In each further row a "
    "merge, whose number is on the left, has glued two neighboring tokens: en, ix, six, een, "
    "teen. The last row has the tokens six, teen, t and h, and arrows lead from them to their ids "
    "260, 263, 83 and 71."
)
WORD = "sixteenth"
STEPS = (  # the number of the merge, and the new token: the trace of the chapter
    ("1: e + n", "en"),
    ("3: i + x", "ix"),
    ("5: s + ix", "six"),
    ("7: e + en", "een"),
    ("8: t + een", "teen"),
)
IDS = ("260", "263", "83", "71")
LEFT, TOP, WIDE, PITCH, HIGH = 148, 92, 41, 40, 30


def glued(tokens: list[str], new: str) -> list[str]:
    """Merge the two neighbors that form the new token."""
    place = next(n for n in range(len(tokens)) if "".join(tokens[n : n + 2]) == new)
    return [*tokens[:place], new, *tokens[place + 2 :]]


def boxes(tokens: list[str], y: float) -> list[Box]:
    """Place tokens above their letters."""
    starts = [len("".join(tokens[:n])) for n in range(len(tokens))]
    return [
        Box(LEFT + WIDE * start + 2, y, WIDE * len(word) - 4, HIGH)
        for start, word in zip(starts, tokens, strict=True)
    ]


def row(tokens: list[str], y: float, label: str, new: str = "") -> str:
    """Draw the tokens after a merge, and highlight the new one."""
    places = zip(boxes(tokens, y), tokens, strict=True)
    return group(
        text(20, y + 20, label),
        *(token(box, word, lit=word == new) for box, word in places),
    )


def draw() -> str:
    """Draw the letters, a row for each merge that applies, and the ids of the last row."""
    tokens = list(WORD)
    rows = [row(tokens, TOP, "letters")]
    for n, (merge, new) in enumerate(STEPS, start=1):
        tokens = glued(tokens, new)
        rows.append(row(tokens, TOP + n * PITCH, f"merge {merge}", new))
    bottom = TOP + len(STEPS) * PITCH + HIGH
    ids = [
        group(
            arrow([(box.cx, bottom), (box.cx, bottom + 28)]),
            centered(box.cx, bottom + 42, number, bold=True, color=INK),
        )
        for box, number in zip(boxes(tokens, 0), IDS, strict=True)
    ]
    return page(TITLE, DESC, bottom + 66, *rows, *ids, text(20, bottom + 47, "ids"))
