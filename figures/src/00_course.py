"""Chapter 00: the map of the course, and the hours that each way through it takes."""

import json
import re
from pathlib import Path

from colors import INK, SOFT
from drawing import Box, group, page, rect, tag, text
from model_parts import badge, look

TITLE = (
    "Three ways through the course: {} hours for the fast track,\n"
    "{} to read it all, {} with every exercise"
)
START, *CHAPTERS = sorted(Path(__file__).parents[2].glob("notebooks/[0-9][0-9]_*.ipynb"))
TOTAL = re.compile(  # tools/chapter_times.py writes the numbers
    r"takes about (\d+) hours\..*"
    r"about (\d+) hours to read and run; with all the exercises, about (\d+)",
    re.DOTALL,
)
STEPS = {  # by the number of its first chapter
    "01": "the parts",
    "07": "the model",
    "10": "its use",
    "18": "later models",
    "26": "cost, scale",
}
SHORT = {  # the titles that are too long for a box
    "02": "Multi-head",
    "09": "Transformer",
    "13": "KV cache",
    "22": "Published",
    "27": "Distributed",
}
FAST = [f"{number:02}" for number in range(1, 13)]  # with sections of the fast track
LONGEST = 280  # px, the bar of the full course
LEFT, TOP, WIDE, HIGH, COLUMNS = 138, 186, 164, 34, 3


def title(chapter: Path) -> str:
    """Return the title of a chapter, without its number."""
    source = json.loads(chapter.read_text(encoding="utf-8"))["cells"][0]["source"]
    return "".join(source).partition("\n")[0].partition(" · ")[2]


def rows() -> list[tuple[str, list[Path]]]:
    """Put at most three chapters in a row; the first row of a step contains the step's name."""
    found: list[tuple[str, list[Path]]] = []
    for chapter in CHAPTERS:
        step = STEPS.get(chapter.name[:2], "")
        if step or len(found[-1][1]) == COLUMNS:
            found.append((step, []))
        found[-1][1].append(chapter)
    return found


def hours() -> tuple[int, int, int]:
    """Return the hours of the fast track, of reading all chapters, and of doing all exercises."""
    cells = json.loads(START.read_text(encoding="utf-8"))["cells"]
    words = "\n".join("".join(cell["source"]) for cell in cells)
    fast, read, full = map(int, TOTAL.search(words).groups())
    return fast, read, full


def ways() -> str:
    """Draw each way through the course as a bar whose length shows the hours."""
    times = hours()
    hour = LONGEST / times[-1]  # px
    looks = (
        ("fast track", f"about {times[0]} hours: some sections of 00 to 12", INK),
        ("read and run", f"about {times[1]} hours: all chapters", SOFT),
        ("full course", f"about {times[2]} hours: all exercises", SOFT),
    )
    parts = []
    for i, ((name, words, color), time) in enumerate(zip(looks, times, strict=True)):
        bar = Box(LEFT, 78 + 28 * i, time * hour, 18)
        parts += [
            text(20, bar.y + 14, name, bold=True),
            rect(bar, fill=color, stroke=None, radius=2),
            text(bar.right + 10, bar.y + 14, words),
        ]
    return group(*parts)


def entry(chapter: Path, x: float, y: float, lit: str | None) -> str:
    """Draw a chapter as a box that links to it, with a black edge if it is in the fast track."""
    number = chapter.name[:2]
    box = Box(x, y, WIDE - 12, HIGH)
    edge = Box(x, y, 6, HIGH)
    drawn = group(
        rect(box, radius=7, **look(number, lit)),
        rect(edge, fill=INK, stroke=None, radius=3) if number in FAST else "",
        badge(x + 22, box.cy, number, lit),
        text(x + 39, box.cy + 5, SHORT.get(number) or title(chapter), size=13.5),
    )
    return tag("a", f"\n{drawn}\n", href=f"../notebooks/{chapter.name}")


def draw(lit: str | None = None) -> str:
    """Draw the three ways, and every chapter with its number, in reading order.

    Args:
        lit: The two digits of the chapter to highlight, if any.
    """
    parts = []
    for i, (step, chapters) in enumerate(rows()):
        y = TOP + i * (HIGH + 10)
        parts.append(text(20, y + 22, step, bold=True) if step else "")
        parts += [entry(each, LEFT + j * (WIDE - 2), y, lit) for j, each in enumerate(chapters)]
    bottom = TOP + len(rows()) * (HIGH + 10)
    edge = Box(LEFT, bottom + 6, 6, 20)
    return page(
        TITLE.format(*hours()),
        "Three bars, as long as each way takes: the fast track, reading and running all chapters, "
        "and the full course with all exercises. Below them the chapters in rows, from top to "
        "bottom: six parts, from attention to masks; the model, encoder, decoder and Transformer; "
        "its use, tokenization, training, decoding, cache, beam search, evaluation and real "
        "sentences; later models, published weights and an assistant; cost and scale. A black edge "
        "marks the "
        "chapters of the fast track, 01 to 12.",
        bottom + 42,
        ways(),
        group(*parts),
        rect(edge, fill=INK, stroke=None, radius=3),
        text(edge.right + 10, edge.y + 15, "with sections of the fast track"),
    )
