"""The sections of the fast track are complete without the others."""

import subprocess
import sys
from pathlib import Path

import pytest
from chapter_times import FAST, FAST_TRACK, sections
from notebook_sections import fast_track, read

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = [
    path for path in sorted(ROOT.glob("notebooks/*.ipynb")) if int(path.name[:2]) in FAST_TRACK
]
chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


@chapter
def test_the_fast_track_uses_no_name_from_other_sections(path):
    code = "\n".join(cell.source for cell in fast_track(read(path)))
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", "--select", "F821", "-"]
    found = subprocess.run(ruff, input=code, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@chapter
def test_the_fast_track_is_a_part_of_the_main_path(path):
    headings = [heading for heading, _ in sections(read(path))]
    main = headings[: headings.index("Recap")]
    marked = {heading for heading in headings if heading.endswith(FAST)}
    assert marked and marked <= {h for h in main if not h.startswith("Exercises")}
