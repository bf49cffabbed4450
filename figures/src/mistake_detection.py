"""The kill matrix, which shows how the checks first detect the mistakes in each module."""

from collections import Counter

from colors import INK, PAPER, VALUE, mix
from drawing import Box, centered, page, rect, text

from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.checking.check import caught_at
from course_lib.exercises.checking.outcomes import KINDS
from course_lib.exercises.checking.public_issues import with_links

LEFT, TOP, WIDE, HIGH = 172, 172, 39, 26


def counts() -> dict[str, Counter]:
    """Count how the mistakes in each module are first detected; modules are in import order."""
    found: dict[str, Counter] = {}
    for name in exercises():
        for mistake in known_mistakes(name):
            found.setdefault(mistake.module, Counter())[caught_at(mistake)[1]] += 1
    return found


def draw() -> str:
    """Draw a row for each module and a column for each kind; a darker cell has more mistakes."""
    found = counts()
    total = sum(sum(row.values()) for row in found.values())
    unseen = sum(row[""] for row in found.values())
    desc = (
        f"A table of {len(found)} modules and {len(KINDS)} ways in which a mistake can show. Each "
        "cell is the percentage of the module's known mistakes that first show in that way."
    )
    heads = [
        text(LEFT + WIDE * (n + 0.5) + 5, TOP - 8, kind, turn=-90) for n, kind in enumerate(KINDS)
    ]
    rows = [_row(place, *row) for place, row in enumerate(found.items())]
    return page(
        f"{total} known mistakes, {unseen or 'none'} of them undetected",
        desc,
        TOP + HIGH * len(found) + 12,
        text(20, 54, "percent of a module's mistakes that first show in this way"),
        *heads,
        *(part for row in rows for part in row),
    )


def markdown() -> str:
    """Write each mistake's sentence, where it was found, and how the check detects it."""
    lines = [
        "# Known mistakes, and how the checks detect them",
        "",
        "Written by `make figures` from `course_lib.exercises`.",
        "",
        "A check says *This is what you get when …* and the sentence of the mistake. A mistake "
        "fails only the stages that its sentence touches.",
    ]
    for name in exercises():
        lines += ["", f"## `{name}`", "", "| mistake | when … | seen in | fails | shows first as |"]
        lines += ["|---|---|---|---|---|"]
        for m in known_mistakes(name):
            how = " | ".join(caught_at(m))
            seen = with_links(m.seen) or "—"
            lines.append(f"| `{m.name}` | {m.sentence} | {seen} | {how} |")
    return "\n".join(lines) + "\n"


def _row(place: int, module: str, row: Counter) -> list[str]:
    """Name a module, count its mistakes, and fill its cells."""
    y, total = TOP + HIGH * place, sum(row.values())
    parts = [text(LEFT - 8, y + 17, f"{module} ({total})", anchor="end")]
    for n, kind in enumerate(KINDS):
        share = row[kind] / total
        box = Box(LEFT + WIDE * n + 1, y + 1, WIDE - 2, HIGH - 2)
        fill = mix(PAPER, VALUE, 0.75 * share) if share else PAPER
        parts.append(rect(box, fill=fill, stroke=mix(INK, PAPER, 0.85), radius=0))
        if share:
            parts.append(centered(box.x + box.w / 2, box.y + box.h / 2, f"{share:.0%}"[:-1]))
    return parts
