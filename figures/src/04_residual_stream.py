"""Chapter 04: the residual stream, which post-norm rescales and pre-norm does not."""

from colors import INK, PAPER
from drawing import Box, arrow, centered, group, page, rect, text
from model_parts import plus

TITLE = (
    "In pre-norm the residual stream is one unbroken line;\n"
    "in post-norm the norms are on the line itself"
)
NAMES = ("attention", "feed forward", "attention", "feed forward")
FIRST, PITCH, REACH = 84, 116, 52  # px; from where a sub-layer reads to where it adds
STREAMS = {"pre-norm": 132, "post-norm": 300}


def norm(x: float, y: float) -> str:
    """Draw a norm."""
    box = Box(x - 20, y - 12, 40, 24)
    return group(rect(box, fill=PAPER), centered(box.cx, box.cy, "norm"))


def sublayer(x: float, y: float, name: str, pre_norm: bool) -> str:
    """Draw a sub-layer below the stream: it reads on the left and adds on the right."""
    box = Box(x - 23, y + 70, 98, 30)
    return group(
        arrow([(x, y), (x, box.y)]),
        arrow([(x + REACH, box.y), (x + REACH, y + 9)]),
        rect(box),
        centered(box.cx, box.cy, name),
        norm(x, y + 40) if pre_norm else norm(x + REACH + 34, y),
        plus(x + REACH, y),
    )


def stream(name: str, y: float) -> str:
    """Draw a stream with its sub-layers."""
    places = [FIRST + i * PITCH for i in range(len(NAMES))]
    return group(
        text(20, y - 26, name, bold=True),
        text(20, y + 5, "x", bold=True),
        arrow([(36, y), (526, y)], color=INK, width=4),
        *(
            sublayer(x - 20, y, each, name == "pre-norm")
            for x, each in zip(places, NAMES, strict=True)
        ),
    )


def draw() -> str:
    """Draw both streams through two layers."""
    return page(
        TITLE,
        "Two thick lines from left to right. Above, pre-norm: four sub-layers are below the line; "
        "each reads from it through a norm and adds to it, and the line is unbroken. Below, "
        "post-norm: the norms are on the line itself, one after every sum.",
        422,
        *(stream(*each) for each in STREAMS.items()),
    )
