"""Update the times of chapters and routes, in the openings and on the pages that list them.

The opening of a chapter or side trip states its reading time, and each exercise states its own. The
time with the exercises is rounded to five minutes, because it is an estimate. A route
names its chapters, as in ``**The paper** (00 to 09, 11, 12): about …``.
"""

import re
from pathlib import Path

import nbformat

from course_lib.exercises.library.progress import items
from notebooks import ROOT, chapters, pages, rewrite

BOX = re.compile(
    r"((?:About|\*Time:\*) (\d+) minutes(?:\s+to\s+read)?,\s+)\d+(\s+with\s+the\s+exercises\.)"
)
TOTAL = re.compile(r"(about\s+)\d+( hours to read and run; with all the exercises, about )\d+")
ROUTE = re.compile(r"(\*\*([\w ]+)\*\* \(([\w, ]+)\): about )\d+( hours, )\d+( with the exercises)")
PAGES = [ROOT / page for page in ("README.md", "docs/_site/index.md", "docs/teaching/syllabi.md")]
Times = dict[str, tuple[int, int]]  # minutes to read, and with exercises, of "25" or "25_patches"


def page_times() -> Times:
    """Compute the minutes of every page; raise ValueError if a chapter's opening lacks them."""
    times = {}
    left = items()
    for path in reversed(pages()):  # a side trip comes before its chapter, and takes its exercises
        cells = nbformat.read(path, as_version=4).cells
        text = "\n".join(cell.source for cell in cells)
        is_chapter, number = path in chapters(), int(path.name[:2])
        own = [x for x in left if x.chapter == number and (is_chapter or f'("{x.name}"' in text)]
        left = [item for item in left if item not in own]
        if box := BOX.search("\n".join(cell.source for cell in cells[:3])):
            minutes = int(box[2]), 5 * round((int(box[2]) + sum(x.minutes for x in own)) / 5)
            times[path.name[:2] if is_chapter else path.stem] = minutes
        elif is_chapter:
            raise ValueError(f"{path.name}: add '*Time:* 30 minutes, 40 with the exercises.'")
    return times


def listed(text: str) -> set[str]:
    """Return the chapters that a route names; if it names none, all."""
    ranges = re.findall(r"(\d\d)(?: to (\d\d))?", text) or [("00", "99")]
    return {f"{n:02}" for a, b in ranges for n in range(int(a), int(b or a) + 1)}


def hours(times: Times, numbers: set[str]) -> list[int]:
    """Return the hours of some chapters, to read and with the exercises."""
    return [round(sum(times[n][k] for n in times.keys() & numbers) / 60) for k in (0, 1)]


def revised(text: str, number: str, times: Times) -> str:
    """Correct the times in the text of a chapter or side trip, or of another page ("00")."""
    text = TOTAL.sub("\\g<1>{}\\g<2>{}".format(*hours(times, listed(""))), text)

    def timed(route: re.Match[str]) -> str:
        """Return the text of a route with its hours."""
        read, done = hours(times, listed(route[3]))
        return f"{route[1]}{read}{route[4]}{done}{route[5]}"

    text = ROUTE.sub(timed, text)
    return BOX.sub(lambda box: f"{box[1]}{times[number][1]}{box[3]}", text)


def write(check: bool = False) -> list[str]:
    """Correct the openings and pages, or only check them; return the names of the stale files."""
    times = page_times()

    def corrected(path: Path, text: str) -> str:
        """Return the text of a chapter or a page with correct times."""
        if path.suffix == ".md":
            return revised(text, "00", times)
        notebook = nbformat.reads(text, as_version=4)
        number = path.name[:2] if path in chapters() else path.stem
        for cell in notebook.cells:
            cell.source = revised(cell.source, number, times)
        return nbformat.writes(notebook) + "\n"

    return rewrite([*pages(), *PAGES], corrected, check)


if __name__ == "__main__":
    print(*write(), sep="\n")
