"""Write a workbook: the chapters without their answers, and the learner's own library."""

import hashlib
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path

from course_lib.exercises.checking.exercise import exercises, find_exercise
from course_lib.exercises.checking.public_issues import course_repository
from course_lib.exercises.library.package import INIT, LIBRARY, module_text
from course_lib.exercises.workbook.notebook_builder import HELP, Chapter, Edition, notebooks_in
from course_lib.support.atomic_write import replacing
from course_lib.support.terminal import as_typed

PACKAGE = Path(__file__).resolve().parents[2]
COURSE = PACKAGE if (PACKAGE / "notebooks").is_dir() else PACKAGE.parent  # in a wheel, or a clone
TASKS = ("tasks.numbers",)  # this module trains and uses the chapters' model
EDITION = b"<!-- edition "  # in the last line of the README
PAGES = Path(__file__).with_name("workbook_pages")


def make_workbook(folder: Path, *, solutions: bool = True, force: bool = False) -> list[Path]:
    """Write a workbook with ``fill``; raise ValueError if the folder is the course's own."""
    _check_folder(folder)
    if not force and _holds_files(folder):
        again = as_typed("workbook", str(folder), "--force")
        raise ValueError(
            f"{folder} is not empty; choose another folder, or let `{again}` write into it "
            "(the command first moves the files that you changed)"
        )
    return fill(folder, workbook_files(solutions), force=True)


def restore_workbook(folder: Path) -> tuple[list[str], bool]:
    """Write a workbook's missing files, and leave its other files unchanged.

    Returns:
        The names of the files that were written (in a new folder, all of them), and whether the
        rest of the workbook comes from this edition of the course.

    Raises:
        ValueError: If the folder is the course's own, or contains files but is not a workbook.
    """
    _check_folder(folder)
    page = folder / "README.md"
    readme = page.read_bytes() if page.is_file() else b""
    is_workbook = (folder / LIBRARY).is_dir() or EDITION in readme
    if _holds_files(folder) and not is_workbook:
        inside = as_typed("learn", str(folder / "workbook"))
        raise ValueError(
            f"{folder} contains files but no workbook; choose another folder, as in `{inside}`"
        )
    texts = [readme, *(path.read_bytes() for path in folder.glob("0[01]_*.ipynb"))]
    files = workbook_files(solutions=not any(HELP[False].encode() in text for text in texts))
    current = not readme or files["README.md"].splitlines()[-1] in readme
    missing = {name: content for name, content in files.items() if not (folder / name).exists()}
    fill(folder, missing, force=True)
    return list(missing), current


def fill(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> list[Path]:
    """Write files, after moving existing ones with different content to a new folder ``kept-N``.

    Returns the new paths of the files that were moved. No file is lost if the process is killed.
    Raises ValueError if the folder is not empty and ``force`` is False.
    """
    if not force and _holds_files(folder):
        raise ValueError(f"{folder} is not empty; choose another folder")
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
    """Copy the completed chapters that a folder lacks; return the path of the first chapter.

    A clone of the course already contains them.

    Raises:
        ValueError: If the folder contains other files, but none of the chapters.
    """
    if folder.resolve() == COURSE.resolve() != PACKAGE:
        return folder / "notebooks" / "00_start_here.ipynb"
    _check_folder(folder)
    sources = notebooks_in(COURSE / "notebooks")
    files = {str(path.relative_to(COURSE)): path.read_bytes() for path in sources}
    missing = {name: text for name, text in files.items() if not (folder / name).exists()}
    has_chapters = any(name.endswith(".ipynb") for name in files.keys() - missing.keys())
    fill(folder, missing, force=has_chapters)
    return folder / "notebooks" / "00_start_here.ipynb"


def _check_folder(folder: Path) -> None:
    """Raise ValueError if the chapters cannot be written to a folder."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give the path of a folder")
    if folder.resolve() in (COURSE.resolve(), COURSE.resolve() / "notebooks"):
        raise ValueError(f"{folder} contains the course itself; choose another folder")


def _holds_files(folder: Path) -> bool:
    """Return whether a folder exists and is not empty."""
    return folder.is_dir() and any(folder.iterdir())


def workbook_files(solutions: bool) -> dict[str, bytes]:
    """Map the path of each file in a workbook to its content."""
    worked = [Chapter.read(path) for path in notebooks_in(COURSE / "notebooks")]
    exported = dict.fromkeys(c.module for c in worked if c.module and c.exported)
    modules = [*exported, *TASKS]
    texts = {
        f"{LIBRARY}/__init__.py": INIT,  # the first file shows that the folder is a workbook
        "README.md": "",  # and the second one, whether it holds the solutions
        f"{LIBRARY}/tasks/__init__.py": '"""The tasks that your model learns."""\n',
        "AGENTS.md": (PAGES / "AGENTS.md").read_text(encoding="utf-8"),
    }
    texts |= {f"{LIBRARY}/{name.replace('.', '/')}.py": module_text(name) for name in modules}
    asked = {name: find_exercise(name) for name in exercises()}
    learner = Edition(asked, frozenset(modules), solutions, course_repository())
    for chapter in worked:
        text = json.dumps(learner.notebook(chapter), indent=1, sort_keys=True, ensure_ascii=False)
        texts[chapter.file] = f"{text}\n"  # as JupyterLab saves it
    edition = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:16]
    page = (PAGES / "README.md").read_text(encoding="utf-8")
    texts["README.md"] = page.format(help=HELP[solutions], edition=edition)
    return {name: text.encode() for name, text in texts.items()}
