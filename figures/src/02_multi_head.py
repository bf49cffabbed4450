"""Chapter 02: several narrow attention heads side by side."""

from math import exp

from colors import KEY, QUERY, VALUE, shade
from drawing import Box, arrow, group, page, path, text
from model_parts import attention, badge, block, sheets
from token_cells import heat, vector

TITLE = "Each head has a map of its own;\ntogether, their outputs are d_model wide"
DESC = (
    "A vector of 6 numbers goes to three heads, each with its own V, K and Q of 2 numbers and "
    "its own map of weights: bright on the diagonal, bright one place earlier, bright in the "
    "last column. Their outputs, side by side, make 6 numbers again and are mixed."
)
HEADS = ("Head 0", "Head 1", "Head 2")
D_K, TOKENS, CELL = 2, 4, 16
D_MODEL = D_K * len(HEADS)
MIDDLE, PITCH = 270, 164
OUT_Y, MIX_Y, JOIN_Y, HEAD_Y, CUT_Y, IN_Y = 80, 134, 186, 240, 374, 460


def weights(wanted: tuple[int, ...]) -> list[list[float]]:
    """Return the weights of a head that prefers one position per query: softmax(−distance)."""
    powers = [[exp(-1.4 * abs(key - place)) for key in range(TOKENS)] for place in wanted]
    return [[power / sum(row) for power in row] for row in powers]


FORK = CUT_Y + 36  # where the input is distributed
LOOKS = (weights((0, 1, 2, 3)), weights((0, 0, 1, 2)), weights((3, 3, 3, 3)))


def head(x: float, name: str, look: list[list[float]]) -> str:
    """Draw one head with its own narrow V, K and Q, weights, and output."""
    box = Box(x - 76, HEAD_Y, 152, 80)
    cuts = zip((x - 50, x, x + 50), "VKQ", (VALUE, KEY, QUERY), strict=True)
    return group(
        attention(box, words=""),
        text(box.x + 11, box.y + 34, name, bold=True),
        badge(box.x + 27, box.y + 56, "01"),
        heat(box.right - 4 * CELL - 12, box.y + 8, look, CELL),
        *(
            group(
                arrow([(at, CUT_Y), (at, box.bottom)], color=color, width=2.2),
                vector(
                    Box(at - CELL, CUT_Y, 2 * CELL, CELL), [0] * D_K, color=color, numbers=False
                ),
                text(at + 7, box.bottom + 24, letter, bold=True, color=shade(color)),
                path([(at, FORK), (at, CUT_Y + CELL)]),
            )
            for at, letter, color in cuts
        ),
    )


def join(i: int, x: float) -> str:
    """Draw the path of a head's output to its place in the concatenated vector."""
    w = D_K * CELL
    place = Box(MIDDLE - w / 2 + (i - 1) * (w + 4), JOIN_Y, w, CELL)
    return group(
        arrow([(x, HEAD_Y), (x, HEAD_Y - 18), (place.cx, HEAD_Y - 18), (place.cx, place.bottom)]),
        vector(place, [0] * D_K, color=VALUE, numbers=False),
    )


def wide(y: float, words: str) -> str:
    """Draw a vector of d_model numbers, with its name on the left and its width on the right."""
    box = Box(MIDDLE - D_MODEL * CELL / 2, y, D_MODEL * CELL, CELL)
    return group(
        vector(box, [0] * D_MODEL, numbers=False),
        text(box.x - 12, y + 14, words, anchor="end"),
        text(box.right + 12, y + 14, f"d_model = {D_MODEL}"),
    )


def draw() -> str:
    """Draw three heads between one wide input and one wide output."""
    places = [MIDDLE + (i - 1) * PITCH for i in range(len(HEADS))]
    ends = [at for x in places for at in (x - 50, x, x + 50)]
    shell = Box(places[0] - 86, 122, places[-1] - places[0] + 172, FORK - 122 + 20)
    mixing = Box(MIDDLE - 46, MIX_Y, 92, 30)
    return page(
        TITLE,
        DESC,
        IN_Y + 72,
        sheets(shell),
        text(shell.x + 10, shell.y + 26, "Multi-head attention", bold=True),
        badge(shell.x + 187, shell.y + 21, "02"),
        text(MIDDLE + 70, JOIN_Y + 14, f"{len(HEADS)} heads of d_v = {D_K}"),
        text(20, IN_Y + 52, "Queries run down, keys run across; bright means a large weight."),
        path([(MIDDLE, IN_Y), (MIDDLE, FORK)]),
        path([(ends[0], FORK), (ends[-1], FORK)]),
        *(head(x, name, look) for x, name, look in zip(places, HEADS, LOOKS, strict=True)),
        *(join(i, x) for i, x in enumerate(places)),
        arrow([(MIDDLE, JOIN_Y), (MIDDLE, mixing.bottom)]),
        block(mixing, "mix: w_o", "02"),
        arrow([(MIDDLE, mixing.y), (MIDDLE, OUT_Y + CELL)]),
        wide(IN_Y, "each position"),
        wide(OUT_Y, "its output"),
    )
