"""Link chapters to their neighbors and the contents, and side trips to and from their chapters."""

import re
from pathlib import Path

import nbformat
from nbformat import v4

from course_lib.exercises.workbook.notebook_builder import NAVIGATION, SIDE_TRIPS
from notebooks import ROOT, chapters, pages, rewrite

TRIPS = re.compile(r"^\*\*Side trips:\*\* .*\n*", re.MULTILINE)
NEXT = re.compile(r"^(?=\*\*Next:\*\*|This is the last chapter)", re.MULTILINE)


def links(paths: list[Path], place: int) -> str:
    """Return a line of links from a chapter to the previous, the first and the next chapter."""
    before, after = paths[max(0, place - 1) : place], paths[place + 1 : place + 2]
    found = [f"← {link(path)}" for path in before]
    found += [f"[Contents]({paths[0].name})"] * (place > 0)
    return " · ".join(found + [f"{link(path)} →" for path in after])


def title(path: Path) -> str:
    """Return the title of a chapter or side trip, without a number."""
    first = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0]
    words = first.removeprefix("# Side trip: ").rpartition(" · ")[2]
    return words[0].upper() + words[1:]


def link(path: Path, folder: str = "") -> str:
    """Return a link to a chapter, with its number and title."""
    return f"[{path.name[:2]} · {title(path)}]({folder}{path.name})"


def trips_line(number: str, trips: list[Path]) -> str:
    """Return the line that lists a chapter's side trips."""
    mine = [trip for trip in trips if trip.name[:2] == number]
    listed = [f"[{title(trip)}]({SIDE_TRIPS}/{trip.name})" for trip in mine]
    return f"**Side trips:** {' · '.join(listed)}\n\n" if listed else ""


def with_trips(cells: list[nbformat.NotebookNode], line: str) -> None:
    """Replace the line of side trips, or write it above the sentence on the next chapter."""
    place = TRIPS if any(TRIPS.search(cell.source) for cell in cells) else NEXT
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = place.sub(lambda _: line, cell.source)


def write(root: Path = ROOT, check: bool = False) -> list[str]:
    """Correct the links on all pages, or only check them; return the names of the stale pages."""
    paths, trips = chapters(root), [path for path in pages(root) if path.parent.name == SIDE_TRIPS]

    def linked(path: Path, text: str) -> str:
        """Return the text of a chapter or side trip with its links."""
        notebook = nbformat.reads(text, as_version=4)
        if path in trips:
            (home,) = (chapter for chapter in paths if chapter.name[:2] == path.name[:2])
            line = f"← back to {link(home, '../')} · [Contents](../{paths[0].name})"
        else:
            line = links(paths, paths.index(path))
            with_trips(notebook.cells, trips_line(path.name[:2], trips))
        last = v4.new_markdown_cell(line, id=NAVIGATION)
        notebook.cells = [cell for cell in notebook.cells if cell.id != NAVIGATION] + [last]
        return nbformat.writes(notebook) + "\n"

    return rewrite([*paths, *trips], linked, check)


if __name__ == "__main__":
    print(*write(), sep="\n")
