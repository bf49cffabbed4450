"""Chapter 15: evaluation, where teacher forcing forgives each mistake and free running does not."""

from drawing import Box, arrow, group, page, path, text
from token_cells import token

TITLE = "Teacher-forced, each mistake is forgiven;\nfree-running, the model must go on from it"
DESC = (
    "Two panels, each with a row of tokens that the decoder reads and a row that it predicts. "
    "Teacher-forced, it predicts acht where fünf is right, reads the true fünf next, and predicts "
    "the rest right: five of six tokens. Free-running, it reads its own acht and then predicts "
    "[eos]: the sentence is wrong."
)
RIGHT = ("drei", "hundert", "fünf", "und", "vierzig", "[eos]")
WRONG = 2  # the position of the mistake
FORCED = (*RIGHT[:WRONG], "acht", *RIGHT[WRONG + 1 :])
FREE = (*RIGHT[:WRONG], "acht", "[eos]")
LEFT, PITCH, WIDE, HIGH = 104, 74, 66, 28
FIRST, SECOND, BETWEEN = 108, 300, 76


def place(i: int, y: float) -> Box:
    """Where the token number i of a row is drawn."""
    return Box(LEFT + PITCH * i, y, WIDE, HIGH)


def row(words: tuple[str, ...], y: float, lit: int) -> str:
    """Draw a row of tokens, the one at place ``lit`` lit."""
    return group(*(token(place(i, y), word, lit=i == lit) for i, word in enumerate(words)))


def right_tokens(guessed: tuple[str, ...]) -> int:
    """Count the guesses that are right."""
    return sum(guess == word for guess, word in zip(guessed, RIGHT, strict=False))


def panel(y: float, name: str, guessed: tuple[str, ...], read: tuple[str, ...], lit: int) -> str:
    """Draw what is guessed over what is read, and an arrow up at every place."""
    ups = [(place(i, y).cx, i) for i in range(len(guessed))]
    return group(
        text(20, y - 14, name, bold=True),
        text(20, y + 19, "predicts"),
        text(20, y + BETWEEN + 19, "reads"),
        *(arrow([(x, y + BETWEEN), (x, y + HIGH)]) for x, _ in ups),
        row(guessed, y, WRONG),
        row(read, y + BETWEEN, lit),
    )


def fed_back(i: int) -> str:
    """Draw the way of a guess to the place where it is read."""
    guess, goal = place(i, SECOND), place(i + 1, SECOND + BETWEEN)
    side = guess.right + (PITCH - WIDE) / 2
    return arrow(
        [(guess.right, guess.cy), (side, guess.cy), (side, goal.y - 13), (goal.x + 14, goal.y - 13)]
        + [(goal.x + 14, goal.y)],
        dash="5 4",
    )


def struck(y: float) -> str:
    """Cross out the wrong guess."""
    box = place(WRONG, y)
    return path([(box.x + 6, box.bottom - 4), (box.right - 6, box.y + 4)], width=2)


def draw() -> str:
    """Draw the same mistake twice: with the true token read next, and with itself."""
    right = right_tokens(FORCED)
    return page(
        TITLE,
        DESC,
        452,
        panel(FIRST, "Teacher-forced: it reads what is right", FORCED, ("[bos]", *RIGHT[:-1]), 3),
        struck(FIRST),
        text(20, FIRST + 134, f"{right} of {len(RIGHT)} tokens are right.", bold=True),
        panel(SECOND, "Free-running: it reads what it wrote", FREE, ("[bos]", *FREE[:-1]), 3),
        struck(SECOND),
        *(fed_back(i) for i in range(len(FREE) - 1)),
        text(20, SECOND + 134, "0 of 1 sentences are right: 308 is not 345.", bold=True),
    )
