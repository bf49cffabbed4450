"""Chapter 19: how a GPT writes one character after another."""

from colors import INK, LINE, LIT_FILL, PAPER
from drawing import Box, arrow, centered, group, lines, page, path, rect, text
from token_cells import blocked, token

TITLE = (
    "A GPT writes one character at a time: it reads a\n"
    "window, draws what comes next, and reads again"
)
DESC = (
    "Three steps, one below the other. In each step, a frame marks the window: at most five "
    "characters of the text. An arrow leads from the window to a box named GPT, and from there to "
    "five bars, one for each of the most likely next characters. One character is drawn, not "
    "always the most likely one, and an arrow appends it to the text. After “def ” it is r, after "
    "“def r” it is e. Now the frame is full and moves on, and d is hatched because it has left the "
    "window. After “ef re” the next character is a."
)
START, WINDOW = "def ", 5  # the initial text, and the size of the window
# The most likely next characters in percent, counted in the library of Python 3.11.7.
STEPS = (
    ("the window has room for one more", "r", {"_": 41, "s": 6, "r": 6, "g": 6, "c": 5}),
    ("the window is full", "e", {"e": 84, "u": 9, "a": 3, "g": 1, "o": 1}),
    ("the first character has left", "a", {"a": 54, "s": 11, "p": 11, "m": 8, "g": 4}),
)
NOTE = "Here the probabilities are counted in Python's own library;\na GPT has to learn them."
TOP, STEP = 112, 166  # the first heading, and the distance between headings
LEFT, SIDE, PITCH = 25, 30, 40  # of the characters of the text
BARS, BAR, APART, UNIT = 322, 26, 42, 0.62  # left end, width, distance; pixels per percent
ROW, AXIS = 92, 72  # from the heading to the text and to the foot of the bars


def place(i: int, step: int) -> Box:
    """Return the place of character i of the text in a step."""
    return Box(LEFT + PITCH * i, TOP + STEP * step + ROW, SIDE, SIDE)


def shown(character: str) -> str:
    """Return a character as it is drawn, with a symbol for a space."""
    return "␣" if character == " " else character


def fallen(read: str) -> int:
    """Count the characters that have left the window."""
    return max(0, len(read) - WINDOW)


def window(step: int, read: str) -> Box:
    """Return the frame around the characters that the model may read."""
    first = place(fallen(read), step)
    pad = (PITCH - SIDE) / 2
    return Box(first.x - pad, first.y - pad, PITCH * min(len(read), WINDOW), PITCH)


def written(step: int, read: str, drawn: str) -> str:
    """Draw the text: characters before the window, the framed window, and the new character."""
    boxes = [place(i, step) for i in range(len(read) + 1)]
    return group(
        rect(window(step, read), fill=PAPER, stroke=INK, width=2.6, radius=10),
        *(
            group(blocked(box), centered(box.cx, box.cy, shown(character), bold=True))
            if i < fallen(read)
            else token(box, shown(character))
            for i, (box, character) in enumerate(zip(boxes, read, strict=False))
        ),
        token(boxes[-1], shown(drawn), lit=True),
    )


def bars(step: int, drawn: str, shares: dict[str, int]) -> str:
    """Draw a bar for each of the most likely next characters, and highlight the sampled one."""
    foot, parts = TOP + STEP * step + AXIS, []
    for i, (character, share) in enumerate(shares.items()):
        box = Box(BARS + APART * i, foot - UNIT * share, BAR, UNIT * share)
        lit = character == drawn
        style = dict(fill=LIT_FILL, stroke=INK, width=2.2) if lit else dict(fill=LINE, stroke=None)
        parts += [
            rect(box, radius=0, **style),
            text(box.cx, box.y - 7, f"{share}%", anchor="middle", bold=lit),
            text(box.cx, foot + 18, shown(character), anchor="middle", bold=lit),
        ]
    end = BARS + APART * (len(shares) - 1) + BAR
    return group(*parts, path([(BARS - 8, foot), (end + 8, foot)], color=INK, width=1))


def turn(step: int, read: str) -> str:
    """Draw one step: the window, the model, its bars, and the path of the sampled character."""
    words, drawn, shares = STEPS[step]
    top, frame, goal = TOP + STEP * step, window(step, read), place(len(read), step)
    model = Box(frame.cx - 40, top + 24, 80, 34)
    chosen = BARS + APART * list(shares).index(drawn) + BAR / 2
    end = (max(frame.right, goal.right) + 3, goal.cy)
    return group(
        text(20, top, f"step {step + 1}", bold=True),
        text(76, top, words),
        written(step, read, drawn),
        arrow([(frame.cx, frame.y), (frame.cx, model.bottom)]),
        rect(model, radius=9, fill=PAPER),
        centered(model.cx, model.cy, "GPT"),
        arrow([(model.right, model.cy), (BARS - 14, model.cy)]),
        bars(step, drawn, shares),
        arrow([(chosen, top + AXIS + 25), (chosen, goal.cy), end], dash="5 4"),
    )


def draw() -> str:
    """Draw three steps in which a text grows, and the window moves once it is full."""
    drawn = "".join(step[1] for step in STEPS)
    end = TOP + STEP * len(STEPS)
    return page(
        TITLE,
        DESC,
        end + 40,
        *(turn(step, START + drawn[:step]) for step in range(len(STEPS))),
        text(520, TOP - 26, "probability of the next character", anchor="end"),
        lines(20, end, NOTE),
    )
