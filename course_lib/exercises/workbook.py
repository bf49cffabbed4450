"""Write a workbook: the chapters without their answers, and the learner's own library."""

import itertools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from course_lib.atomic_write import replacing
from course_lib.exercises.exercise_bank import exercise, exercises
from course_lib.exercises.learner_package import INIT, LIBRARY, module_text
from course_lib.exercises.notebook_builder import HELP, Chapter, Edition, source_of
from course_lib.exercises.public_issues import course_repository

PACKAGE = Path(__file__).resolve().parents[1]
COURSE = PACKAGE if (PACKAGE / "notebooks").is_dir() else PACKAGE.parent  # in a wheel, or a clone
TASKS = ("tasks.numbers",)  # it trains and uses the model of the chapters
README = """# Your workbook

Open `00_start_here.ipynb` in JupyterLab, and work through the chapters in order. (In a terminal, in
this folder: `jupyter lab 00_start_here.ipynb`.)

- **You write** the cells with `raise NotImplementedError`, and you replace the dots in
  `my_… = ...`. When you run such a cell, it shows one of these results:

  | it shows | it means |
  |---|---|
  | ✓ Correct | your answer does everything that is asked |
  | ✓ The core is right | you can continue; the course's definition does what is marked ○ |
  | ✗ Not yet | the first thing that is wrong, in words |
  | ○ Not attempted yet | the cell still holds only the stub |

  Until your version passes, the chapter uses the course's definition.
- **Help:** {help}
- **`my_lib/` is your own library.** At first, its modules hold the course's definitions. The last
  cell of a chapter writes the cells that passed to it, and later chapters import them. The parts
  that you have not written are the course's, but they call yours: the model that trains and
  translates uses your attention as soon as it passes. From chapter 11 on, a line says which parts
  are yours.
- **To get the course's definition back:** run `export_mine(without="causal_mask")` in a chapter.
- **In a terminal, in this folder:** `course check causal_mask` checks a saved answer.
  `course progress` lists what is done (we keep this only here). `course workbook . --force`
  writes the chapters again. It first moves the files that you changed, also those in `my_lib/`, to
  `kept-1/` (the next time to `kept-2/`).
"""


def make_workbook(folder: Path, *, solutions: bool = True, force: bool = False) -> list[Path]:
    """Write a workbook as ``fill`` does; raise ValueError if the folder is the course's own."""
    if folder.resolve() in (COURSE.resolve(), COURSE.resolve() / "notebooks"):
        raise ValueError(f"{folder} holds the course itself; choose another folder")
    return fill(folder, workbook_files(solutions), force=force)


def fill(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> list[Path]:
    """Write files, and first move those that differ to ``kept-1``, ``kept-2``, ….

    Returns the new paths of the files that were moved. A process that is killed loses none of them.
    Raises ValueError if the folder is not empty, and ``force`` was not given.
    """
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise ValueError(
            f"{folder} is not empty; choose another folder, or let `course workbook --force` write "
            "into it (it first moves the files that you changed)"
        )
    free = (folder / f"kept-{number}" for number in itertools.count(1))
    old_files = next(path for path in free if not path.exists())
    moved = []
    for name, content in files.items():
        path, aside = folder / name, old_files / name
        for part in path.parent.glob(f"{path.name}.*.part"):  # of a process that was killed
            part.unlink()
        if path.exists() and path.read_bytes() != content:
            aside.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, aside)
            moved.append(aside)
        if not path.exists():
            with replacing(path) as file:
                file.write(content)
    return moved


def copy_chapters(folder: Path) -> Path:
    """Copy the worked chapters and pictures that are not there yet; return the first chapter.

    Raises ValueError if a folder holds other files, but none of the course.
    """
    sources = sorted([*COURSE.glob("notebooks/*.ipynb"), *COURSE.glob("figures/*.svg")])
    files = {str(path.relative_to(COURSE)): path.read_bytes() for path in sources}
    missing = {name: text for name, text in files.items() if not (folder / name).exists()}
    fill(folder, missing, force=len(missing) < len(files))
    return folder / "notebooks" / "00_start_here.ipynb"


def workbook_files(solutions: bool) -> dict[str, bytes]:
    """Return every file of a workbook by its name in the folder."""
    worked = [Chapter.read(path) for path in sorted(COURSE.glob("notebooks/[0-9][0-9]_*.ipynb"))]
    modules = [*(c.module for c in worked if c.module and c.exported), *TASKS]
    texts = {
        "README.md": README.format(help=HELP[solutions]),
        f"{LIBRARY}/__init__.py": INIT,
        f"{LIBRARY}/tasks/__init__.py": '"""The tasks that your model learns."""\n',
    }
    texts |= {f"{LIBRARY}/{name.replace('.', '/')}.py": module_text(name) for name in modules}
    tasks = {name: exercise(name) for name in exercises()}
    edition = Edition(tasks, frozenset(modules), solutions, course_repository())
    figures: set[str] = set()
    for chapter in worked:
        notebook = edition.notebook(chapter)
        texts_read = [
            source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "markdown"
        ]
        figures.update(re.findall(r'(?:\]\(|src=")(figures/[^)"\s]+)', "\n".join(texts_read)))
        text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False)
        texts[chapter.file] = f"{text}\n"  # as JupyterLab saves it
    pictures = {name: (COURSE / name).read_bytes() for name in sorted(figures)}
    return {name: text.encode() for name, text in texts.items()} | pictures
