"""Chapter 15: teacher forcing corrects each mistake, and free running does not."""

from drawing import Box, arrow, group, page, path, text
from token_cells import token

TITLE = "Teacher forcing corrects each mistake;\nin free running, the model continues from it"
DESC = (
    "Two panels, each with a row of tokens that the decoder reads and a row that it predicts. "
    "Under teacher forcing, it predicts acht instead of fünf, but then it reads the true fünf, and "
    "its other predictions are right, so five of six tokens are right. In free running, it reads "
    "its own acht and predicts [eos], so the sentence is wrong."
)
RIGHT = ("drei", "hundert", "fünf", "und", "vierzig", "[eos]")
WRONG = 2  # the position of the mistake
FORCED = (*RIGHT[:WRONG], "acht", *RIGHT[WRONG + 1 :])
FREE = (*RIGHT[:WRONG], "acht", "[eos]")
LEFT, PITCH, WIDE, HIGH = 88, 72, 64, 28
FIRST, SECOND, BETWEEN = 108, 300, 76


def place(i: int, y: float) -> Box:
    """Return the box of token i in a row."""
    return Box(LEFT + PITCH * i, y, WIDE, HIGH)


def row(words: tuple[str, ...], y: float, lit: int) -> str:
    """Draw a row of tokens, and highlight the one at place ``lit``."""
    return group(*(token(place(i, y), word, lit=i == lit) for i, word in enumerate(words)))


def right_tokens(guessed: tuple[str, ...]) -> int:
    """Count the correct predictions."""
    return sum(guess == word for guess, word in zip(guessed, RIGHT, strict=False))


def panel(y: float, name: str, guessed: tuple[str, ...], read: tuple[str, ...], lit: int) -> str:
    """Draw the predictions above the input tokens, with an arrow at each position."""
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
    """Draw the arrow from a prediction to the position that reads it."""
    guess, goal = place(i, SECOND), place(i + 1, SECOND + BETWEEN)
    side = guess.right + (PITCH - WIDE) / 2
    return arrow(
        [(guess.right, guess.cy), (side, guess.cy), (side, goal.y - 13), (goal.x + 14, goal.y - 13)]
        + [(goal.x + 14, goal.y)],
        dash="5 4",
    )


def struck(y: float) -> str:
    """Cross out the wrong prediction."""
    box = place(WRONG, y)
    return path([(box.x + 6, box.bottom - 4), (box.right - 6, box.y + 4)], width=2)


def draw() -> str:
    """Draw the same mistake twice; next, the model reads the true token or its own token."""
    right = right_tokens(FORCED)
    return page(
        TITLE,
        DESC,
        452,
        panel(FIRST, "Teacher-forced: it reads the true tokens", FORCED, ("[bos]", *RIGHT[:-1]), 3),
        struck(FIRST),
        text(20, FIRST + 134, f"{right} of {len(RIGHT)} tokens are right.", bold=True),
        panel(SECOND, "Free-running: it reads its own tokens", FREE, ("[bos]", *FREE[:-1]), 3),
        struck(SECOND),
        *(fed_back(i) for i in range(len(FREE) - 1)),
        text(20, SECOND + 134, "0 of 1 sentences are right: 308 is not 345.", bold=True),
    )
