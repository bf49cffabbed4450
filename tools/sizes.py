"""Report the size of each chapter and side trip, next to the sizes that style.md asks for.

Nothing fails: ``!`` marks what is too large, or comes too late. Run: make sizes
"""

import re
from pathlib import Path

import nbformat

from course_lib.exercises.workbook.notebook_builder import SIDE_TRIPS
from notebooks import HIDE, ROOT, pages

LIMITS = {"words": 2600, "cells": 50, "lines": 320, "first": 3}
TRIP_LIMITS = {"words": 1200, "cells": 20, "lines": 320, "first": 3}
NOT_PROSE = r"```.*?```|\$\$.*?\$\$|!\[[^\]]*\][(\[][^)\]]*[)\]]|\[[\w.]+\]: data:\S+|<[^>]+>"
HEADS = ("words", "cells", "lines", "asserts", "first", "after")


def prose(cell: nbformat.NotebookNode) -> str:
    """Return the running text of a cell, without code, formulas, tables, pictures or tags."""
    text = re.sub(NOT_PROSE, "", cell.source, flags=re.S)
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))


def measure(page: Path) -> dict[str, int]:
    """Return the sizes of a page, and where it first shows an output.

    Lines are those of visible code, without blank ones. The output's place is that of its cell
    among the visible code cells, counted from 1, and the number of words above it.
    """
    words = cells = lines = asserts = seen = first = after = 0
    for cell in nbformat.read(page, as_version=4).cells:
        cells += 1
        if cell.cell_type == "markdown":
            words += len(prose(cell).split())
            continue
        asserts += len(re.findall(r"^\s*(?:assert\b|assert_close\()", cell.source, re.M))
        if HIDE not in cell.metadata.get("tags", []):
            seen += 1
            lines += sum(bool(line.strip()) for line in cell.source.splitlines())
            if cell.outputs and not first:
                first, after = seen, words
    return dict(zip(HEADS, (words, cells, lines, asserts, first, after), strict=True))


def too_large(page: Path, size: dict[str, int]) -> list[str]:
    """List the measures of a page that are over its limits."""
    limits = TRIP_LIMITS if page.parent.name == SIDE_TRIPS else LIMITS
    return [name for name, limit in limits.items() if size[name] > limit]


def main() -> None:
    """Print a table of all pages, and the sums for chapters and for side trips."""
    print(f"{'page':40}" + "".join(f"{head:>9}" for head in HEADS))
    totals: dict[str, dict[str, int]] = {}
    for page in pages():
        size = measure(page)
        over = too_large(page, size)
        name = page.relative_to(ROOT / "notebooks").with_suffix("").as_posix()
        marks = (f"{value}{'!' if head in over else ' '}" for head, value in size.items())
        print(f"{name:40}" + "".join(f"{mark:>9}" for mark in marks))
        sums = totals.setdefault(
            "side trips" if "/" in name else "chapters", dict.fromkeys(HEADS, 0)
        )
        for head in HEADS[:4]:
            sums[head] += size[head]
    for kind, sums in totals.items():
        print(f"{'all ' + kind:40}" + "".join(f"{sums[head]:>8} " for head in HEADS[:4]))
    print(f"At most, in a chapter: {LIMITS}; in a side trip: {TRIP_LIMITS}")


if __name__ == "__main__":
    main()
