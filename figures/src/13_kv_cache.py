"""Chapter 13: the KV cache, which keeps the keys and values of earlier tokens."""

from colors import KEY, VALUE, shade, tint
from drawing import Box, centered, group, page, text
from token_cells import cell, token

TITLE = (
    "The keys and values of earlier tokens do not change,\n"
    "so with a cache each step computes only the newest token"
)
DESC = (
    "Two staircases of four steps. On the left all tokens read so far are computed again in "
    "every step, ten positions in all; on the right only the newest is, four in all, and each "
    "earlier token is a box with its key and its value, which are kept."
)
TARGET = ("[bos]", "drei", "hundert", "fünf")
STEPS = len(TARGET)
TOP, STEP, WIDTH, PITCH = 116, 48, 64, 67
AGAIN, KEPT = 20, 358  # where the two staircases begin
MIDDLE = (AGAIN + PITCH * STEPS + KEPT) / 2


def place(left: float, i: int, step: int) -> Box:
    """Return the box of token i in a step."""
    return Box(left + PITCH * i, TOP + STEP * step, WIDTH, 30)


def kept(box: Box) -> str:
    """Draw the key and the value of an earlier token, which the cache keeps."""
    halves = (("K", KEY, box.x), ("V", VALUE, box.cx))
    return group(
        *(
            group(
                cell(Box(x, box.y, box.w / 2, box.h), fill=tint(role), stroke=role),
                centered(x + box.w / 4, box.cy, name, bold=True, color=shade(role)),
            )
            for name, role, x in halves
        )
    )


def computed(cache: bool) -> list[tuple[int, int]]:
    """List the computed positions as pairs (token, step)."""
    return [(i, step) for step in range(STEPS) for i in range(step + 1) if i == step or not cache]


def staircase(left: float, name: str, cache: bool, source: str) -> str:
    """Draw the steps of one way to decode, and the total number of computed positions below."""
    lit = computed(cache)
    steps = [(i, step) for step in range(STEPS) for i in range(step + 1)]
    end = TOP + STEP * STEPS + 12
    return group(
        text(left, TOP - 24, name, bold=True),
        *(
            token(place(left, i, step), TARGET[i], lit=True)
            if (i, step) in lit
            else kept(place(left, i, step))
            for i, step in steps
        ),
        text(left, end, f"{len(lit)} positions computed,"),
        text(left, end + 20, f"the source's K and V {source}"),
    )


def legend(y: float) -> str:
    """Explain the two kinds of boxes."""
    lit, old = Box(AGAIN, y - 20, WIDTH, 30), Box(KEPT - 50, y - 20, WIDTH, 30)
    return group(
        token(lit, "fünf", lit=True),
        text(lit.right + 10, y, "computed in this step"),
        kept(old),
        text(old.right + 10, y, "kept: a token's key and value"),
    )


def draw() -> str:
    """Draw four steps of a decoder without a cache, and of one with a cache."""
    bottom = TOP + STEP * STEPS
    return page(
        TITLE,
        DESC,
        bottom + 108,
        staircase(AGAIN, "without a cache", False, "4 times"),
        staircase(KEPT, "with a cache", True, "once"),
        *(centered(MIDDLE, place(0, 0, s).cy, f"step {s + 1}") for s in range(STEPS)),
        legend(bottom + 76),
    )
