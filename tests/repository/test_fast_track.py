"""The sections of the fast track run alone, in order."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from chapter_times import FAST, FAST_TRACK, sections
from nbclient import NotebookClient
from notebook_sections import fast_track, read

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = [
    path for path in sorted(ROOT.glob("notebooks/*.ipynb")) if int(path.name[:2]) in FAST_TRACK
]
chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
quick = pytest.mark.parametrize(
    "path",
    [path for path in CHAPTERS if path.stem != "11_training"],  # this one trains for half a minute
    ids=lambda path: path.stem,
)


@chapter
def test_the_fast_track_uses_no_name_from_other_sections(path):
    code = "\n".join(cell.source for cell in fast_track(read(path)))
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", "--select", "F821", "-"]
    found = subprocess.run(ruff, input=code, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


FORGET = "%reset -f\nimport matplotlib, torch; matplotlib.rcdefaults(); torch.manual_seed(0)"


@pytest.fixture(scope="module")
def kernel():
    """Start one kernel for all chapters, because importing torch takes most of a start."""
    client = NotebookClient(
        nbformat.v4.new_notebook(),
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(ROOT / "notebooks")}},
        shutdown_kernel="immediate",
    )
    with client.setup_kernel():
        yield client


@quick
def test_the_fast_track_runs_without_other_sections(path, kernel):
    track = fast_track(read(path))
    assert len(track) > 2
    for source in (FORGET, *(cell.source for cell in track)):
        cell = nbformat.v4.new_code_cell(source)
        kernel.nb.cells = [cell]
        kernel.execute_cell(cell, 0)  # a name from a section that is left out raises here
        assert cell.execution_count


@chapter
def test_chapter_00_lists_the_fast_track(path):
    marked = [h.removesuffix(FAST) for h, _ in sections(read(path)) if h.endswith(FAST)]
    start = "\n".join(cell.source for cell in read(CHAPTERS[0]))
    number = f"[{path.name[:2]}]({path.name})" if path != CHAPTERS[0] else "00"
    assert f"| {number} | {' · '.join(marked)} |" in start


@chapter
def test_the_fast_track_is_a_part_of_the_main_path(path):
    headings = [heading for heading, _ in sections(read(path))]
    main = headings[: headings.index("Recap")]
    marked = {heading for heading in headings if heading.endswith(FAST)}
    assert marked and marked <= {h for h in main if not h.startswith("Exercises")}
