"""Chapter 20: two heads copy a word, one that notes the letter before and one that looks it up."""

from colors import INK, KEY, LIT_FILL, PAPER, SOFT, VALUE, shade
from drawing import Box, arrow, centered, group, page, rect, text
from token_cells import token

TITLE = (
    "Layer 0 notes which letter came before.\nLayer 1 looks for the note, and copies that letter"
)
DESC = (
    "Three rows of letters. The text is b, r, i, j, y and later again b, r, i. In layer 0, each "
    "letter sends itself one position to the right, so that j knows that i came before it. In "
    "layer 1, the last i looks for the letter with an i before it. It finds j, and j is copied to "
    "the end."
)
WORD, AGAIN = "brijy", "bri"
LEFT, PITCH, WIDE, TALL = 120, 47, 42, 44
ROWS = 92, 178, 276  # the top of each row
GAP = 6  # px between an arrow and the letter that it points to


def column(i: int) -> float:
    """Return the left edge of letter i; there is a gap between the word and its copy."""
    return LEFT + PITCH * (i if i < len(WORD) else i + 0.6)


def place(row: int, i: int) -> Box:
    """Return the box of letter i in a row."""
    return Box(column(i), ROWS[row], WIDE, TALL)


def letter(row: int, i: int, word: str, note: str = "", *, lit: bool = False) -> str:
    """Draw a letter and what its vector says besides."""
    box = place(row, i)
    return group(
        rect(box, fill=LIT_FILL if lit else PAPER, stroke=INK, width=2.2 if lit else 1, radius=7),
        centered(box.cx, box.y + 14 if note else box.cy, word),
        centered(box.cx, box.y + 32, note, color=shade(KEY)) if note else "",
    )


def notes() -> str:
    """Draw layer 0: each letter is noted at the next position."""
    letters = WORD + AGAIN
    drawn = []
    for i in range(len(letters)):
        begins = i in (0, len(WORD))
        note = "" if begins else f"({letters[i - 1]})"
        drawn.append(letter(1, i, letters[i], note, lit=i in (3, 7)))
        if not begins:
            before, here = place(0, i - 1), place(1, i)
            color, width = (KEY, 2.6) if i == 3 else (SOFT, 1.4)
            points = [(before.cx + 8, before.bottom + 2), (here.cx - 8, here.y - GAP)]
            drawn.append(arrow(points, color=color, width=width))
    return group(*drawn)


def copy() -> str:
    """Draw layer 1: the last letter finds j and copies it."""
    found, last = place(1, 3), place(2, 7)
    turn = found.bottom + 22
    points = [
        (found.cx, found.bottom + 2),
        (found.cx, turn),
        (last.cx, turn),
        (last.cx, last.y - GAP),
    ]
    return group(
        arrow(points, color=VALUE, width=2.6),
        text(
            last.cx - 10,
            turn + 20,
            "Who has an i before them? I do: j.",
            anchor="end",
            color=shade(VALUE),
        ),
        token(last, "j", lit=True),
    )


def draw() -> str:
    """Draw the text, and what each layer adds."""
    labels = "the text", "after layer 0", "next letter"
    return page(
        TITLE,
        DESC,
        340,
        *(text(20, y + 27, words) for y, words in zip(ROWS, labels, strict=True)),
        *(letter(0, i, word) for i, word in enumerate(WORD + AGAIN)),
        notes(),
        centered(column(5) - 17, ROWS[0] + 22, "…"),
        copy(),
    )
