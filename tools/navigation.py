"""At a chapter's end, and below its box if it has one, link to its neighbors and the contents."""

import re
from pathlib import Path

import nbformat
from nbformat import v4

from course_lib.exercises.workbook.notebook_builder import NAVIGATION
from notebooks import ROOT, chapters, rewrite

BOX = "You will build"
LINE = re.compile(r"\n*^(← \[.+|\[.+\.ipynb\) →)$", re.MULTILINE)
PICTURES = re.compile(r"\n+^(?=\[[\w.]+\.svg\]: )", re.MULTILINE)  # at the end of a cell


def links(paths: list[Path], place: int) -> str:
    """Return a line of links from a chapter to the previous, the first and the next chapter."""
    before, after = paths[max(0, place - 1) : place], paths[place + 1 : place + 2]
    found = [f"← {link(path)}" for path in before]
    found += [f"[Contents]({paths[0].name})"] * (place > 0)
    return " · ".join(found + [f"{link(path)} →" for path in after])


def link(path: Path) -> str:
    """Return a link to a chapter, with its number and title."""
    title = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0]
    return f"[{path.name[:2]} · {title.partition(' · ')[2]}]({path.name})"


def write(root: Path = ROOT, check: bool = False) -> list[str]:
    """Correct the links in all chapters, or only check them; return the stale chapters' names."""
    paths = chapters(root)

    def linked(path: Path, text: str) -> str:
        """Return the text of a chapter with its links."""
        notebook, line = nbformat.reads(text, as_version=4), links(paths, paths.index(path))
        for box in [cell for cell in notebook.cells if BOX in cell.source][:1]:
            words, *pictures = PICTURES.split(box.source, maxsplit=1)
            words = LINE.sub("", words).rstrip()
            box.source = "\n\n".join([words, line, *pictures])
        last = v4.new_markdown_cell(line, id=NAVIGATION)
        notebook.cells = [cell for cell in notebook.cells if cell.id != NAVIGATION] + [last]
        return nbformat.writes(notebook) + "\n"

    return rewrite(paths, linked, check)


if __name__ == "__main__":
    print(*write(), sep="\n")
