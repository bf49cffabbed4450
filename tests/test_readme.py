"""The README is true: its example runs, its links lead somewhere, its commands exist."""

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(language: str) -> str:
    """Return all code blocks of a language, one after another."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S))


def test_the_library_example_runs_and_prints_what_it_says():
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec(blocks("python"), names)
    assert printed.getvalue().strip() == "63082496"
    assert names["logits"].shape == (2, 7, 37_000)


def test_every_link_and_picture_is_there():
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", README)
    assert len(targets) > 12
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_the_table_lists_every_chapter_in_order():
    listed = re.findall(r"\(notebooks/(\w+\.ipynb)\)", README)
    assert listed == [path.name for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]


def test_every_make_command_exists():
    named = set(re.findall(r"^make ([a-z]+)", blocks("sh"), re.M))
    assert {"lab", "test"} <= named <= set(re.findall(r"^([a-z]+):", MAKEFILE, re.M))


def test_jupyter_opens_at_the_root_so_that_chapters_find_their_pictures():
    for text in (README, MAKEFILE):
        (command,) = re.findall(r"jupyter lab (.+)", text)
        assert command == "--ServerApp.root_dir=. notebooks/00_start_here.ipynb"


def test_the_table_of_results_agrees_with_itself():
    rows = re.findall(r"^\| (?:German|French|Chinese) \|(.+)\|$", README, re.M)
    assert len(rows) == 3
    for row in rows:
        *shares, mean, span = (cell.strip() for cell in row.split("|"))
        values = [float(share) for share in shares]
        assert mean == f"{sum(values) / 3:.4f}"
        assert span == f"{min(values):.3f} to {max(values):.3f}"
