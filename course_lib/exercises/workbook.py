"""The learner's edition, generated from the chapters; it becomes the learner's own library."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from course_lib.exercises.exercise_bank import exercise, exercises
from course_lib.exercises.learner_package import INIT, LIBRARY, check_edition, module_text
from course_lib.exercises.notebook_builder import Chapter, Edition, source_of
from course_lib.exercises.safe_folder import fill

PACKAGE = Path(__file__).resolve().parents[1]
COURSE = PACKAGE if (PACKAGE / "notebooks").is_dir() else PACKAGE.parent  # in a wheel, or a clone
TASKS = ("tasks.numbers",)  # it trains and uses the chapters' model
README = """# Your workbook

Open `00_start_here.ipynb` in JupyterLab, and take the chapters in order. (In a terminal, in this
folder: `jupyter lab 00_start_here.ipynb`.)

- **What is yours to write:** the cells with `raise NotImplementedError`, and the dots in
  `my_… = ...`. Run the cell, and it answers:

  | it shows | it means |
  |---|---|
  | ✓ Correct | it does all that is asked |
  | ✓ The core is right | go on; what is marked ○ is missing, and the course's stands in for it |
  | ✗ Not yet | the first thing that is not right, in words |
  | ○ Not attempted yet | there is nothing but the stub |

  Until yours is right, the course's own definition stands in, so that the rest of a chapter runs.
- **Stuck?** {help}
- **`my_lib/` is yours.** At first its modules run what the course has written. The last cell of a
  chapter puts the cells that passed there. Later chapters import from it, and what you have not
  written is the course's text with your parts in it: the model that trains and translates has your
  attention, as soon as yours passed. From chapter 11 on, a line says how much of it is yours.
- **Back to the course's:** `export_mine(without="causal_mask")` in the last cell of its chapter.
- **How far am I?** `course progress` in a terminal, in this folder. What it knows stays here.
- **The chapters anew:** `course workbook . --force` in this folder. What you changed, `my_lib/`
  included, is moved to `kept-1/` first (the next time to `kept-2/`); copy back what you want.
"""
HELP = {
    True: "A hint and the solution are folded below each exercise.",
    False: "A hint is folded below each exercise.",
}


def make_workbook(folder: Path, *, solutions: bool = True, force: bool = False) -> list[Path]:
    """Write the learner's edition into a folder.

    Args:
        folder: Where; it must be empty or missing.
        solutions: Whether solutions are in it, folded; hints are in any case.
        force: Whether to write it anew where something is there. What was changed is kept aside.

    Returns:
        The files kept aside, where they are now.

    Raises:
        ValueError: If the folder is not empty, or it is the course's own or of the first edition.
    """
    if folder.resolve() in (COURSE.resolve(), COURSE.resolve() / "notebooks"):
        raise ValueError(f"{folder} holds the course itself; give the workbook a folder of its own")
    if (folder / LIBRARY).is_dir():
        check_edition(folder / LIBRARY)
    return fill(folder, workbook_files(solutions), force=force)


def copy_chapters(folder: Path) -> Path:
    """Copy the worked chapters and their pictures into a folder, unless they are there.

    Args:
        folder: Where; it must be empty or missing, or hold what was copied before.

    Returns:
        The first chapter.

    Raises:
        ValueError: If something else is in the folder.
    """
    sources = sorted([*COURSE.glob("notebooks/*.ipynb"), *COURSE.glob("figures/*.svg")])
    files = {path.relative_to(COURSE).as_posix(): path.read_bytes() for path in sources}
    first = folder / "notebooks" / "00_start_here.ipynb"
    if first.exists():
        return first
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} holds something else; give the chapters a folder of their own")
    fill(folder, files)
    return first


def open_lab(chapter: Path, options: Sequence[str] = ()) -> int:
    """Open a chapter that ``copy_chapters`` copied in JupyterLab; return its exit code.

    Raises:
        ValueError: If JupyterLab is not installed.
    """
    if find_spec("jupyterlab") is None:
        raise ValueError("JupyterLab is not installed: python -m pip install jupyterlab")
    root = f"--ServerApp.root_dir={chapter.parents[1]}"
    return subprocess.call([sys.executable, "-m", "jupyterlab", root, str(chapter), *options])


def workbook_files(solutions: bool) -> dict[str, bytes]:
    """Return every file of a workbook by its name in the folder."""
    worked = [Chapter.read(path) for path in sorted(COURSE.glob("notebooks/[0-9][0-9]_*.ipynb"))]
    built = [exercise(name) for name in exercises()]
    hints = {task.name: task.hints for task in built}
    library = dict(_library(worked))
    modules = frozenset(name.removesuffix(".py").replace("/", ".") for name in library)
    edition = Edition(hints, modules, solutions, {task.name: task.stubs for task in built})
    notebooks = {chapter.file: edition.notebook(chapter) for chapter in worked}
    texts = {"README.md": README.format(help=HELP[solutions])}
    texts |= {f"{LIBRARY}/{name}": text for name, text in library.items()}
    for name, notebook in notebooks.items():  # written as JupyterLab saves it
        texts[name] = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    figures = sorted({name for notebook in notebooks.values() for name in _figures(notebook)})
    pictures = {name: (COURSE / name).read_bytes() for name in figures}
    return {name: text.encode() for name, text in texts.items()} | pictures


def _library(worked: Sequence[Chapter]) -> Iterator[tuple[str, str]]:
    """Yield the files of the learner's own package, by name."""
    yield "__init__.py", INIT
    yield "tasks/__init__.py", '"""What your model is trained for."""\n'
    for module in (*(c.module for c in worked if c.exported), *TASKS):
        yield f"{module.replace('.', '/')}.py", module_text(module)


def _figures(notebook: Mapping[str, Any]) -> list[str]:
    """List the pictures that a learner's chapter shows."""
    texts = (source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return re.findall(r'(?:\]\(|src=")(figures/[^)"\s]+)', "\n".join(texts))
