"""Link every chapter to its neighbors and to the contents, below its box and at its end."""

import re
from pathlib import Path

import nbformat
from nbformat import v4

from course_lib.atomic_write import write_whole
from course_lib.exercises.notebook_builder import NAVIGATION
from notebooks import ROOT, chapters

BOX = "You will build"
LINE = re.compile(r"\n*^(← \[.+|\[.+\.ipynb\) →)$", re.MULTILINE)

PICTURES = re.compile(r"\n+^(?=\[[\w.]+\.svg\]: )", re.MULTILINE)  # they end a cell


def links(paths: list[Path], place: int) -> str:
    """Return one line with links from a chapter to the one before, the first, and the next."""
    before, after = paths[max(0, place - 1) : place], paths[place + 1 : place + 2]
    found = [f"← {link(path)}" for path in before]
    found += [f"[Contents]({paths[0].name})"] * (place > 0)
    return " · ".join(found + [f"{link(path)} →" for path in after])


def link(path: Path) -> str:
    """Return a link to a chapter, with its number and title."""
    title = nbformat.read(path, as_version=4).cells[0].source.splitlines()[0]
    return f"[{path.name[:2]} · {title.partition(' · ')[2]}]({path.name})"


def write(root: Path = ROOT, check: bool = False) -> list[str]:
    """Correct the links of all chapters; return the names of the files that changed.

    Args:
        root: The folder that contains ``notebooks/``.
        check: Whether to change nothing.
    """
    paths, changed = chapters(root), []
    for place, path in enumerate(paths):
        before = path.read_text(encoding="utf-8")
        notebook, line = nbformat.reads(before, as_version=4), links(paths, place)
        box = next(cell for cell in notebook.cells if BOX in cell.source)
        words, *pictures = PICTURES.split(box.source, maxsplit=1)
        words = LINE.sub("", words).rstrip()
        box.source = "\n\n".join([words, line, *pictures])
        last = v4.new_markdown_cell(line, id=NAVIGATION)
        notebook.cells = [cell for cell in notebook.cells if cell.id != NAVIGATION] + [last]
        after = nbformat.writes(notebook) + "\n"
        if after != before:
            changed.append(path.name)
            if not check:
                write_whole(path, after)
    return changed


if __name__ == "__main__":
    for name in write():
        print(name)
