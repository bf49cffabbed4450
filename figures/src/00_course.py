"""Chapter 00: the map of the course, and how many hours each way through it takes."""

import json
import re
from pathlib import Path

from colours import INK, SOFT
from drawing import Box, group, page, rect, tag, text
from model_parts import badge, look

TITLE = "Three ways through the course: {} hours for the fast track,\n{} to read it all, {} with every exercise"
START, *CHAPTERS = sorted(Path(__file__).parents[2].glob("notebooks/[0-9][0-9]_*.ipynb"))
TOTAL = re.compile(  # tools/chapter_times.py writes the last two numbers
    r"about (\w+) hours\. After.*about (\d+) hours to read and run; with all exercises, about (\d+)",
    re.DOTALL,
)
STEPS = {  # by the number of its first chapter
    "01": "the parts",
    "07": "the model",
    "11": "its use",
    "18": "later models",
    "24": "cost, scale",
}
SHORT = {  # the titles that are too long for a box
    "02": "Multi-head",
    "09": "Transformer",
    "13": "KV cache",
    "22": "Published",
    "25": "Distributed",
}
LEFT, TOP, WIDE, HIGH, COLUMNS = 138, 186, 164, 34, 3


def title(chapter: Path) -> str:
    """Return the title of a chapter, without its number."""
    source = json.loads(chapter.read_text(encoding="utf-8"))["cells"][0]["source"]
    return "".join(source).partition("\n")[0].partition(" · ")[2]


def rows() -> list[tuple[str, list[Path]]]:
    """Put at most three chapters in a row; the first row of a step has its name."""
    found: list[tuple[str, list[Path]]] = []
    for chapter in CHAPTERS:
        step = STEPS.get(chapter.name[:2], "")
        if step or len(found[-1][1]) == COLUMNS:
            found.append((step, []))
        found[-1][1].append(chapter)
    return found


def draw(lit: str | None = None) -> str:
    """Draw every chapter with its number, in the order of reading.

    Args:
        lit: The two digits of a chapter, which is then lit.
    """
    parts = []
    for i, (step, chapters) in enumerate(rows()):
        y = TOP + i * (HIGH + 10)
        parts.append(text(20, y + 22, step, bold=True) if step else "")
        for j, chapter in enumerate(chapters):
            number = chapter.name[:2]
            name = SHORT.get(number) or title(chapter)
            box = Box(LEFT + j * (WIDE - 2), y, WIDE - 12, HIGH)
            parts += [
                rect(box, radius=7, **look(number, lit)),
                badge(box.x + 18, box.cy, number, lit),
                text(box.x + 36, box.cy + 5, name, size=13.5),
            ]
    return page(
        TITLE,
        "The chapters in rows, from top to bottom: six parts, from attention to masks; the model, "
        "encoder, decoder and Transformer; its use, training, decoding, cache, beam search, "
        "evaluation and real sentences; later models and published weights; cost and scale.",
        TOP + len(rows()) * (HIGH + 10) + 12,
        group(*parts),
    )
