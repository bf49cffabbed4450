"""README: an exercise from the stub to the check mark, as an animation."""

import textwrap

import torch
from colors import KEY, LINE, LIT_FILL, VALUE, shade
from drawing import Box, group, page, rect, tag, text

from course_lib.exercises import check
from course_lib.exercises.checking.report import Report
from course_lib.support.input_checks import check_sizes

MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
HEAD = "def causal_mask(length, device=None):"
STUB = "    raise NotImplementedError"
SIZES = "    check_sizes(length=length)"
ARGUMENTS = "length, length, dtype=torch.bool, device=device"
ONES = f"{SIZES}\n    ones = torch.ones(\n        {ARGUMENTS}\n    )"
UPPER, LOWER = (f"{ONES}\n    return ones.{name}()" for name in ("triu", "tril"))
COLORS = {"○": LINE, "✗": shade(KEY), "✓": shade(VALUE)}
HIDDEN = "••••"
SECONDS = 12  # of one round
LEFT, WIDE, ROW = 20, 500, 20


def attempts() -> list[tuple[str, Report]]:
    """Return each version of the body, with the report of its check."""
    hint = "Replace raise NotImplementedError with your own lines."
    found = [(STUB, Report("causal_mask", False, hint=hint, attempted=False))]
    for body in (UPPER, LOWER):
        names: dict = {"torch": torch, "check_sizes": check_sizes}
        exec(f"{HEAD}\n{body}", names)
        found.append((body, check("causal_mask", names["causal_mask"])))
    return found


def lit(number: int, box: Box) -> str:
    """Draw a ground that lights up in its third of a round, but not if motion is not wanted."""
    name, start = f"lit-{number}", round(100 * number / 3)
    frames = f"0%,{start}%{{opacity:0}}{start + 3}%,{start + 30}%{{opacity:1}}"
    frames += f"{min(start + 33, 100)}%,100%{{opacity:0}}"
    style = f"@keyframes {name}{{{frames}}}.{name}{{opacity:0}}"
    motion = f".{name}{{animation:{name} {SECONDS}s infinite}}"
    style += f"@media(prefers-reduced-motion:no-preference){{{motion}}}"
    ground = tag("g", rect(box, fill=LIT_FILL, stroke=None, radius=8), **{"class": name})
    return group(tag("style", style), ground)


def written(y: float, body: str) -> list[str]:
    """Draw a cell with a definition; the correct answer, an exercise of chapter 06, is hidden."""
    lines = [HEAD, *body.replace("tril", HIDDEN).split("\n")]
    look = f'<text font-family="{MONO}" xml:space="preserve" '
    rows = [text(LEFT + 10, y + ROW * n, line, size=14) for n, line in enumerate(lines)]
    box = Box(LEFT, y - ROW, WIDE, ROW * len(lines) + 12)
    return [rect(box), *(row.replace("<text ", look) for row in rows)]


def reported(y: float, report: Report) -> list[str]:
    """Draw a report: its verdict in color, and then the hint and the numbers, or the stages."""
    color = COLORS[report.title[0]]
    below = [report.ladder] if report.passed else [*textwrap.wrap(report.hint, 66), report.detail]
    rows = [text(LEFT + 22, y, report.title, bold=True, color=color)]
    rows += [text(LEFT + 22, y + ROW * n, row) for n, row in enumerate(filter(None, below), 1)]
    bar = Box(LEFT + 8, y - 15, 4, ROW * len(rows))
    return [rect(bar, fill=color, stroke=None, radius=0), *rows]


def draw() -> str:
    """Draw the versions of one exercise below each other, each with its report."""
    y, parts = 70, []
    for number, (body, report) in enumerate(attempts()):
        cell = written(y, body)
        below = y + ROW * len(cell) + 4
        rows = reported(below, report)
        end = below + ROW * len(rows) + 14
        ground = Box(LEFT - 8, y - ROW - 8, WIDE + 16, end - y - 4)
        parts += [lit(number, ground), *cell, *rows]
        y = end + 6
    return page(
        "You write the body, and the check names your mistake",
        "Three versions of the exercise causal_mask, each with its report: the stub is not "
        "attempted yet; with triu the check says that the mask is the upper triangle, so that "
        "every position sees later ones; with tril it is correct.",
        y - 20,
        *parts,
    )
