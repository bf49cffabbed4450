"""Primitives that write SVG as plain text; the same call always writes the same characters."""

from dataclasses import dataclass
from xml.sax.saxutils import escape

from colors import BOX_FILL, INK, LINE, PAPER, both_themes

FONT = "DejaVu Sans, Verdana, sans-serif"
SIZE, TITLE = 14, 16  # px; the first is the smallest text allowed
WIDTH = 540  # px; a phone of 390 px shows the smallest text with 10 px


@dataclass(frozen=True)
class Box:
    """A rectangle on the page, with names for the places where arrows start and end.

    Args:
        x: Left edge, in px.
        y: Top edge, in px from the top of the page.
        w: Width, in px.
        h: Height, in px.
    """

    x: float
    y: float
    w: float
    h: float

    @property
    def cx(self) -> float:
        """The x coordinate of the center."""
        return self.x + self.w / 2

    @property
    def cy(self) -> float:
        """The y coordinate of the center."""
        return self.y + self.h / 2

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.w

    @property
    def bottom(self) -> float:
        """The bottom edge."""
        return self.y + self.h


def tag(name: str, content: str | None = None, **attributes: object) -> str:
    """Write one element; underscores in attribute names become hyphens."""
    written = "".join(
        f' {key.replace("_", "-")}="{_plain(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}/>" if content is None else f"<{name}{written}>{content}</{name}>"


def _plain(value: object) -> str:
    """Format numbers with at most two decimals, and escape everything else."""
    if isinstance(value, (int, float)):
        return f"{round(value, 2) + 0.0:g}"
    return escape(str(value), {'"': "&quot;"})


def group(*parts: str) -> str:
    """Group parts, with one element per line."""
    return "\n".join(part for part in parts if part)


def move(x: float, y: float, *parts: str) -> str:
    """Move parts that were drawn from the corner (0, 0)."""
    return tag("g", f"\n{group(*parts)}\n", transform=f"translate({_plain(x)} {_plain(y)})")


def page(title: str, desc: str, height: float, *parts: str) -> str:
    """Write a whole drawing: a white panel, the message at its top, and the parts.

    Args:
        title: The message of the drawing; a line break starts its second line.
        desc: A description for readers who cannot see the drawing.
        height: In px; every drawing has the same width.
        parts: The drawn elements, from back to front.
    """
    panel = Box(0.5, 0.5, WIDTH - 1, height - 1)
    drawn = group(
        rect(panel, fill=PAPER, stroke="#DDDDDD", radius=10),
        lines(20, 32, title, gap=22, size=TITLE, bold=True),
        *parts,
    )
    content = group(
        tag("title", escape(title.replace("\n", " "))),
        tag("desc", escape(desc)),
        tag("style", both_themes(drawn)),
        drawn,
    )
    return (
        tag(
            "svg",
            f"\n{content}\n",
            xmlns="http://www.w3.org/2000/svg",
            role="img",
            width=WIDTH,
            height=height,
            viewBox=f"0 0 {WIDTH} {height}",
            font_family=FONT,
        )
        + "\n"
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    size: float = SIZE,
    bold: bool = False,
    color: str = INK,
    turn: float = 0,
) -> str:
    """Write one line of text; (x, y) is on the baseline, at the anchor."""
    return tag(
        "text",
        escape(words),
        x=x,
        y=y,
        font_size=size,
        fill=color,
        font_weight="bold" if bold else None,
        text_anchor=None if anchor == "start" else anchor,
        transform=f"rotate({_plain(turn)} {_plain(x)} {_plain(y)})" if turn else None,
    )


def centered(x: float, y: float, words: str, **style: object) -> str:
    """Write text that is centered horizontally and vertically at (x, y)."""
    size = style.get("size", SIZE)
    return text(x, y + 0.36 * size, words, anchor="middle", **style)


def lines(x: float, y: float, words: str, *, gap: float = 19, **style: object) -> str:
    """Write several lines, the first with its baseline at y."""
    return group(*(text(x, y + gap * i, line, **style) for i, line in enumerate(words.split("\n"))))


def rect(
    box: Box,
    *,
    fill: str = BOX_FILL,
    stroke: str | None = LINE,
    width: float = 1.2,
    radius: float = 4,
) -> str:
    """Draw a rectangle."""
    return tag(
        "rect",
        x=box.x,
        y=box.y,
        width=box.w,
        height=box.h,
        rx=radius or None,
        fill=fill,
        stroke=stroke,
        stroke_width=width if stroke else None,
    )


def circle(x: float, y: float, r: float, *, fill: str = PAPER, stroke: str = LINE) -> str:
    """Draw a circle."""
    return tag("circle", cx=x, cy=y, r=r, fill=fill, stroke=stroke, stroke_width=1.2)


def polygon(points: list[tuple], *, fill: str = BOX_FILL, stroke: str | None = LINE, **more) -> str:
    """Draw a closed shape."""
    width = more.pop("width", 1.2)
    return tag(
        "polygon",
        points=_pairs(points),
        fill=fill,
        stroke=stroke,
        stroke_width=width if stroke else None,
        stroke_linejoin="round" if stroke else None,
        **more,
    )


def path(points: list[tuple], *, color: str = LINE, width: float = 1.6, dash: str = "") -> str:
    """Draw an open line through the points."""
    return tag(
        "polyline",
        points=_pairs(points),
        fill="none",
        stroke=color,
        stroke_width=width,
        stroke_dasharray=dash or None,
        stroke_linejoin="round",
    )


def strokes(segments: list[list[tuple]], *, color: str = LINE, width: float = 1.6) -> str:
    """Draw many short lines as one shape, each from its first point to its last."""
    moves = "".join(f"M{_pairs(segment).replace(' ', 'L')}" for segment in segments)
    return tag("path", d=moves, fill="none", stroke=color, stroke_width=width)


def arrow(points: list[tuple], *, color: str = LINE, width: float = 1.6, dash: str = "") -> str:
    """Draw a line through the points, with an arrowhead at the last one."""
    (x0, y0), (x1, y1) = points[-2:]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    long, half = 6 + 1.2 * width, 2.4 + 0.9 * width
    back = (x1 - long * dx, y1 - long * dy)
    head = [
        (x1, y1),
        (back[0] - half * dy, back[1] + half * dx),
        (back[0] + half * dy, back[1] - half * dx),
    ]
    shaft = [*points[:-1], (back[0] + dx, back[1] + dy)]
    return group(
        path(shaft, color=color, width=width, dash=dash), polygon(head, fill=color, stroke=None)
    )


@dataclass(frozen=True)
class Plot:
    """The area of a plot in px, and the value at which each axis ends; both begin at 0."""

    last: float
    highest: float
    left: float = 70
    right: float = 510
    top: float = 92
    bottom: float = 300

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the coordinates of two values in px."""
        across = self.left + (self.right - self.left) * x / self.last
        return across, self.bottom - (self.bottom - self.top) * y / self.highest

    def axes(self, across: list[int], up: list[int], xlabel: str, ylabel: str) -> str:
        """Draw both axes with the values that they show and their labels."""
        left, bottom = self.left, self.bottom
        corners = [(left, self.top), (left, bottom), (self.right, bottom)]
        shown = [text(left - 10, self.place(0, y)[1] + 5, f"{y}", anchor="end") for y in up]
        shown += [text(self.place(x, 0)[0], bottom + 22, f"{x}", anchor="middle") for x in across]
        middle = (left + self.right) / 2, (self.top + bottom) / 2
        return group(
            path(corners, color=INK, width=1.2),
            *shown,
            text(24, middle[1], ylabel, anchor="middle", turn=-90),
            text(middle[0], bottom + 40, xlabel, anchor="middle"),
        )


def _pairs(points: list[tuple]) -> str:
    """Format coordinates for SVG."""
    return " ".join(f"{_plain(float(x))},{_plain(float(y))}" for x, y in points)
