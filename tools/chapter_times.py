"""Update each chapter's times in its opening, the README and the home page.

The box states the reading time of a chapter, and each exercise states its own time. The fast
track takes a fraction of the reading time, in proportion to its words, cells and pictures.
"""

import re
from pathlib import Path

import nbformat

from course_lib.exercises.library.progress import items
from notebooks import ROOT, chapters, rewrite

BOX = re.compile(
    r"((?:About|\*Time:\*) (\d+) minutes(?:\s+to\s+read)?,\s+)\d+(\s+with\s+the\s+exercises\.)"
)
TOTAL = re.compile(r"(about\s+)\d+( hours to read and run; with all the exercises, about )\d+")
FAST_TOTAL = re.compile(r"(fast track(?:(?!\n\n).)*?takes?\s+about\s+)\d+(\s+hours)", re.DOTALL)
FAST_TRACK = range(2, 13)  # the chapters that have fast-track sections
FAST = " (fast track)"  # the end of a fast-track heading
NOT_PROSE = r"```.*?```|\$\$.*?\$\$|!\[[^\]]*\][(\[][^)\]]*[)\]]|\[[\w.]+\]: data:\S+|<[^>]+>"
WORDS_PER_MINUTE = 200  # plus a minute for each code cell and each picture
Cells = list[nbformat.NotebookNode]
# by a chapter's two digits: minutes to read, with exercises, and for the fast track
Times = dict[str, tuple[int, int, float]]


def prose(cell: nbformat.NotebookNode) -> str:
    """Return the running text of a cell, without code, formulas, tables, pictures or tags."""
    text = re.sub(NOT_PROSE, "", cell.source, flags=re.S)
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))


def sections(cells: Cells) -> list[tuple[str, Cells]]:
    """Split a chapter at its ``##`` headings; the opening has an empty heading."""
    found = [("", [])]
    for cell in cells:
        heading = re.search(r"^## (.+)", cell.source, re.M)
        if cell.cell_type == "markdown" and heading:
            found.append((heading[1], []))
        found[-1][1].append(cell)
    return found


def length(cells: Cells) -> float:
    """Estimate the minutes for words, code and pictures, to compare parts of a chapter."""
    told = [cell for cell in cells if cell.cell_type == "markdown"]
    words = sum(len(prose(cell).split()) for cell in told)
    pictures = sum(cell.source.count("![") for cell in told)
    return words / WORDS_PER_MINUTE + len(cells) - len(told) + pictures


def fast_part(cells: Cells) -> float:
    """Return the fraction of a chapter in the fast track: its opening and its marked sections."""
    fast = [each for heading, each in sections(cells) if not heading or heading.endswith(FAST)]
    return sum(map(length, fast)) / length(cells)


def chapter_times() -> Times:
    """Compute the minutes of every chapter; raise ValueError if a chapter's box lacks them."""
    times = {}
    for path in chapters():
        cells = nbformat.read(path, as_version=4).cells
        box = BOX.search("\n".join(cell.source for cell in cells[:3]))
        if box is None:
            raise ValueError(f"{path.name}: add 'About 30 minutes to read, 40 with the exercises.'")
        number, minutes = int(path.name[:2]), int(box[2])
        exercises = sum(item.minutes for item in items() if item.chapter == number)
        fast = minutes * fast_part(cells) if number in FAST_TRACK else 0.0
        times[path.name[:2]] = minutes, minutes + exercises, fast
    return times


def revised(text: str, number: str, times: Times) -> str:
    """Correct the times in the text of a chapter, or of another page (its number is "00")."""
    hours = [round(sum(column) / 60) for column in zip(*times.values(), strict=True)]
    text = TOTAL.sub("\\g<1>{}\\g<2>{}".format(*hours), text)
    text = FAST_TOTAL.sub(f"\\g<1>{hours[2]}\\g<2>", text)
    return BOX.sub(lambda box: f"{box[1]}{times[number][1]}{box[3]}", text)


def write(check: bool = False) -> list[str]:
    """Correct the boxes and pages, or only check them; return the names of the stale files."""
    times = chapter_times()

    def corrected(path: Path, text: str) -> str:
        """Return the text of a chapter or a page with correct times."""
        if path.suffix == ".md":
            return revised(text, "00", times)
        notebook = nbformat.reads(text, as_version=4)
        for cell in notebook.cells:
            cell.source = revised(cell.source, path.name[:2], times)
        return nbformat.writes(notebook) + "\n"

    pages = [ROOT / "README.md", ROOT / "docs" / "_site" / "index.md"]
    return rewrite([*chapters(), *pages], corrected, check)


if __name__ == "__main__":
    print(*write(), sep="\n")
