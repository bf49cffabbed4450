"""The kill matrix: every known mistake is a column, every stage of the checks a row."""

from itertools import groupby

from colours import INK, LINE, PAPER, mix
from drawing import Box, page, rect, text

from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.check import caught_at
from course_lib.exercises.outcomes import KINDS
from course_lib.exercises.progress import chapter_of

LEFT, TOP, ACROSS, ROW, MARK = 132, 66, 488, 26, 20
PANEL = ROW * len(KINDS) + 48  # with the brackets of its chapters below
FIRST = (1, 7, 13)  # the first chapter of each panel
AGAIN = mix(INK, PAPER, 0.7)  # lighter: seen at this stage, too

Column = tuple[int, list[str]]  # a mistake: its chapter, and the stages at which it shows


def columns() -> list[Column]:
    """Return every known mistake, in the order of the chapters."""
    known = [mistake for name in exercises() for mistake in known_mistakes(name)]
    chapters = {mistake.module: chapter_of(mistake.module) for mistake in known}
    found = [(chapters[mistake.module], caught_at(mistake)) for mistake in known]
    return sorted(found, key=lambda column: column[0])


def draw() -> str:
    """Draw one thin column for each mistake: dark where it is seen first, light where again."""
    found = columns()
    survivors = sum(not stages for _, stages in found)
    desc = (
        "Three tables of nine stages by all known mistakes, grouped by chapter. Every column has a "
        "dark mark at the stage that sees the mistake first, light marks at stages that see it too."
    )
    panels = [[] for _ in FIRST]
    for column in found:
        panels[sum(column[0] >= first for first in FIRST) - 1].append(column)
    return page(
        f"{len(found)} known mistakes, {survivors or 'none'} of them undetected",
        desc,
        TOP + len(FIRST) * PANEL + 4,
        text(LEFT, 54, "one thin column for each; dark: the stage that sees it first"),
        *(part for n, panel in enumerate(panels) for part in _panel(panel, TOP + n * PANEL)),
    )


def markdown() -> str:
    """Write all mistakes with their sentences, where they were seen, and what sees them."""
    lines = [
        "# The kill matrix: known mistakes and the stages that see them",
        "",
        "Written by `make figures` from `course_lib.exercises`. ● sees it first, ○ sees it, too.",
        "",
        "A check says: *This is what comes out when …*, and the sentence of the mistake.",
    ]
    for name in exercises():
        lines += ["", f"## `{name}`", ""]
        lines += [f"| mistake | when … | seen in | {' | '.join(KINDS)} |"]
        lines += ["|---|---|---|" + ":-:|" * len(KINDS)]
        for mistake in known_mistakes(name):
            at = caught_at(mistake)
            signs = ["" if s not in at else "●" if s == at[0] else "○" for s in KINDS]
            words = f"`{mistake.name}` | {mistake.sentence} | {mistake.seen}"
            lines.append(f"| {words} | {' | '.join(signs)} |")
    return "\n".join(lines) + "\n"


def _panel(found: list[Column], top: float) -> list[str]:
    """Name the stages, mark every mistake at every stage that sees it, and name the chapters."""
    width = ACROSS / len(found)
    names = [
        text(LEFT - 10, top + ROW * place + 15, stage, anchor="end")
        for place, stage in enumerate(KINDS)
    ]
    marks = [
        rect(
            Box(LEFT + place * width, top + ROW * KINDS.index(stage), 0.8 * width, MARK),
            fill=INK if stage == stages[0] else AGAIN,
            stroke=None,
            radius=0,
        )
        for place, (_, stages) in enumerate(found)
        for stage in stages
    ]
    return names + marks + _chapters(found, top + ROW * len(KINDS) + 4)


def _chapters(found: list[Column], y: float) -> list[str]:
    """Bracket the columns of each chapter, and write its number below."""
    width, parts, start = ACROSS / len(found), [], LEFT
    for chapter, group in groupby(found, key=lambda column: column[0]):
        wide = len(list(group)) * width
        parts.append(rect(Box(start, y, wide - 2, 3), fill=LINE, stroke=None, radius=0))
        parts.append(text(start + wide / 2, y + 20, f"{chapter:02d}", anchor="middle"))
        start += wide
    return parts
