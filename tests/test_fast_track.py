"""The fast track: the opening of a chapter and the sections marked for it run alone, in order."""

from pathlib import Path

import nbformat
import pytest
from chapter_parts import FAST, SECOND_EDITION, fast_track, main_way, read, sections
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = [
    path
    for path in sorted(ROOT.glob("notebooks/*.ipynb"))
    if int(path.name[:2]) in (*SECOND_EDITION, 11)
]
chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


@chapter
def test_the_fast_track_runs_without_the_rest(path):
    track = fast_track(read(path))
    made = [nbformat.v4.new_code_cell(cell.source, metadata=cell.metadata) for cell in track]
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        nbformat.v4.new_notebook(cells=made),
        timeout=120,
        kernel_name="python3",
        resources=resources,
        shutdown_kernel="immediate",
    )
    client.execute()  # a name from a section that is left out raises here
    ran = [cell.execution_count for cell in client.nb.cells]
    assert ran == list(range(1, len(track) + 1)) and len(ran) > 2


@chapter
def test_chapter_00_lists_the_fast_track(path):
    marked = [h.removesuffix(FAST) for h, _ in sections(read(path)) if h.endswith(FAST)]
    start = "\n".join(cell.source for cell in read(CHAPTERS[0]))
    assert f"| {path.name[:2]} | {' · '.join(marked)} |" in start


@chapter
def test_the_fast_track_is_a_part_of_the_main_way(path):
    marked = {heading for heading, _ in sections(read(path)) if heading.endswith(FAST)}
    main = {heading for heading, _ in main_way(read(path))}
    assert marked and marked <= main
