"""Write how long each chapter takes into its opening box, into chapter 00's table and the README.

The box itself says how long it takes to read the chapter, and the exercises say how long they take.
"""

import re
from pathlib import Path

import nbformat

from course_lib.exercises.progress import items
from notebooks import ROOT, chapters, rewrite

BOX = re.compile(r"(About (\d+) minutes\s+to\s+read,\s+)\d+(\s+with\s+the\s+exercises\.)")
ROW = re.compile(r"^(\| (\d\d) \|.*\|) \d+ \| \d+ \|$", re.MULTILINE)
TOTAL = re.compile(r"(about\s+)\d+( hours to read and run; with all exercises, about )\d+")
Times = dict[str, tuple[int, int]]  # by the two digits of a chapter: to read, with exercises


def chapter_times() -> Times:
    """Add up the minutes of every chapter.

    Raises:
        ValueError: If the box of a chapter does not say them.
    """
    times = {}
    for path in chapters():
        text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells[:3])
        box = BOX.search(text)
        if box is None:
            raise ValueError(f"{path.name}: no 'About 30 minutes to read, 40 with the exercises.'")
        exercises = sum(item.minutes for item in items() if item.chapter == int(path.name[:2]))
        times[path.name[:2]] = int(box[2]), int(box[2]) + exercises
    return times


def revised(text: str, number: str, times: Times) -> str:
    """Return a text of a chapter, or of the README with chapter 00's number, with right times."""
    hours = [round(sum(column) / 60) for column in zip(*times.values(), strict=True)]
    text = TOTAL.sub("\\g<1>{}\\g<2>{}".format(*hours), text)
    if number == "00":
        text = ROW.sub(lambda row: "{} {} | {} |".format(row[1], *times[row[2]]), text)
    return BOX.sub(lambda box: f"{box[1]}{times[number][1]}{box[3]}", text)


def write(root: Path = ROOT, check: bool = False) -> list[str]:
    """Correct the boxes and the README; return the names of the files that changed.

    Args:
        root: The folder that contains them.
        check: Whether to change nothing.
    """
    times = chapter_times()

    def corrected(path: Path, text: str) -> str:
        """Return a chapter, or the README, with right times."""
        if path.suffix == ".md":
            return revised(text, "00", times)
        notebook = nbformat.reads(text, as_version=4)
        for cell in notebook.cells:
            cell.source = revised(cell.source, path.name[:2], times)
        return nbformat.writes(notebook) + "\n"

    return rewrite([*chapters(root), root / "README.md"], corrected, check)


if __name__ == "__main__":
    for name in write():
        print(name)
