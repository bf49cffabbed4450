"""Chapter 03: slow and fast waves that distinguish positions."""

from math import cos, sin

from colors import INK, LINE, LIT_FILL, RDBU_R, on_map
from drawing import Box, arrow, centered, circle, group, page, path, rect, text
from model_parts import plus, wave
from token_cells import cell

TITLE = "Slow and fast waves, like the hands of a clock,\ngive every position its own code"
DESC = (
    "Four waves over the positions 0 to 40, each slower than the one above. Position 13 is "
    "marked on all of them; its place on each wave is shown as a clock hand and as a sine and "
    "a cosine, and the vector of all its numbers is added to the embedding."
)
D_MODEL, PAIRS, LAST, CHOSEN = 16, 4, 40, 13
LEFT, PX = 28, 6.5  # the waves begin at LEFT; one position takes PX
TOP, PITCH, HEIGHT = 142, 80, 22
CLOCK_X, SIN_X, COS_X = 338, 396, 456


def rate(pair: int) -> float:
    """Return the angle in radians by which a pair of columns rotates from position to position."""
    return 10000 ** (-2 * pair / D_MODEL)


def strip(pair: int) -> str:
    """Draw the sine of one pair of columns over the positions, with a dot at each position."""
    y = TOP + PITCH * pair
    fine = [(LEFT + PX * p / 8, y - HEIGHT * sin(rate(pair) * p / 8)) for p in range(8 * LAST + 1)]
    dots = [(LEFT + PX * p, y - HEIGHT * sin(rate(pair) * p)) for p in range(LAST + 1)]
    return group(
        path([(LEFT, y), (LEFT + PX * LAST, y)], color="#DDDDDD", width=1),
        path(fine, color=LINE),
        *(circle(x, dot, 1.8, fill=LINE) for x, dot in dots),
    )


def reading(pair: int) -> str:
    """Draw the chosen position on one wave: a clock's hand, with its sine and cosine."""
    y, angle = TOP + PITCH * pair, rate(pair) * CHOSEN
    hand = (CLOCK_X + 24 * cos(angle), y - 24 * sin(angle))
    at = LEFT + PX * CHOSEN
    values = ((SIN_X, sin(angle)), (COS_X, cos(angle)))
    return group(
        circle(at, y - HEIGHT * sin(angle), 5, fill=INK, stroke=INK),
        text(LEFT, y - 30, f"columns {2 * pair} and {2 * pair + 1}"),
        circle(CLOCK_X, y, 26),
        arrow([(CLOCK_X, y), hand], color=INK, width=2.2),
        *(
            cell(
                Box(x, y - 15, 58, 30),
                f"{value:.2f}".replace("-", "−"),
                fill=on_map((value + 1) / 2, RDBU_R),
            )
            for x, value in values
        ),
    )


def encoding() -> list[float]:
    """Return the sine and cosine of every pair of columns at the chosen position."""
    angles = [rate(pair) * CHOSEN for pair in range(D_MODEL // 2)]
    return [wave_of(angle) for angle in angles for wave_of in (sin, cos)]


def whole(y: float) -> str:
    """Draw the vector of the chosen position, and where the model adds it."""
    size = 18
    return group(
        wave(LEFT + 14, y - 20),
        text(LEFT + 38, y - 15, f"all {D_MODEL} numbers of position {CHOSEN}"),
        *(
            cell(Box(LEFT + size * i, y, size, size), fill=on_map((value + 1) / 2, RDBU_R))
            for i, value in enumerate(encoding())
        ),
        arrow([(LEFT + size * D_MODEL + 6, y + 11), (CLOCK_X + 9, y + 11)]),
        plus(CLOCK_X + 18, y + 11),
        text(CLOCK_X + 38, y + 7, "added to"),
        text(CLOCK_X + 38, y + 25, "the embedding"),
    )


def draw() -> str:
    """Draw four waves, with the clocks and numbers of one position."""
    at, end = LEFT + PX * CHOSEN, TOP + PITCH * (PAIRS - 1) + 34
    return page(
        TITLE,
        DESC,
        end + 120,
        rect(Box(at - 8, TOP - 28, 16, end - TOP + 28), fill=LIT_FILL, stroke=None),
        *(group(strip(pair), reading(pair)) for pair in range(PAIRS)),
        text(SIN_X + 29, TOP - 42, "sine", anchor="middle", bold=True),
        text(COS_X + 29, TOP - 42, "cosine", anchor="middle", bold=True),
        centered(at, end + 12, f"position {CHOSEN}", bold=True),
        text(LEFT, end + 17, "0", anchor="middle"),
        text(LEFT + PX * LAST, end + 17, str(LAST), anchor="middle"),
        whole(end + 72),
    )
