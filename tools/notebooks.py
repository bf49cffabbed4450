"""Export the model's code from the chapters and side trips, and execute them."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from nbclient import execute
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbdev.export import nb_export

from course_lib.exercises.workbook.notebook_builder import FOLDED, SIDE_TRIPS, notebooks_in
from course_lib.interop.weights import missing_weights
from course_lib.support.atomic_write import write_whole

ROOT = Path(__file__).resolve().parent.parent
CELL_TIMEOUT = 300  # seconds
(HIDE,) = FOLDED["tags"]  # the tag that folds a cell's source on the site
NEEDS_WEIGHTS = "needs-weights"  # the tag of a cell that reads published weights
GUARD = re.compile(  # the first lines of the first code cell
    r"try:.*\n    import course_lib\nexcept ModuleNotFoundError:.*\n"
    r'    print\("Install the course first: %pip install /path/to/the/course"\)\n?'
)
WIDGET = "application/vnd.jupyter.widget-view+json"
METADATA = {  # as JupyterLab writes it; it marks a notebook with other metadata as changed
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": IPythonKernel.language_info,
}


def chapters(root: Path = ROOT) -> list[Path]:
    """Return the paths of all chapters, in order."""
    return [path for path in pages(root) if path.parent.name != SIDE_TRIPS]


def pages(root: Path = ROOT) -> list[Path]:
    """Return the paths of all chapters, each followed by its side trips."""
    return notebooks_in(root / "notebooks")


def module_name(chapter: Path) -> str | None:
    """Return the name of the module to which a chapter or side trip exports, if any."""
    text = chapter.read_text(encoding="utf-8")
    exported = re.search(r'^ +"#\| (?:default_exp|export) (\w+)', text, re.M)
    return exported[1] if exported else None


def export(root: Path = ROOT) -> list[Path]:
    """Write course_lib/NAME.py from the cells marked ``#| export``; return the modules written.

    We remove nbdev's marks between cells, make multi-line imports relative (nbdev only
    changes imports on one line), and format the module with ruff.
    The folder ``root`` contains ``notebooks/``, ``course_lib/`` and ``pyproject.toml``.
    """
    written: dict[Path, None] = {}  # a side trip adds to its chapter's module
    for page in pages(root):
        name = module_name(page)
        if name is not None:
            nb_export(page, lib_path=root / "course_lib")
            path = root / "course_lib" / f"{name}.py"
            text = re.sub(r"^# %%.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            text = re.sub(r"^from course_lib\.", "from .", text, flags=re.MULTILINE)
            path.write_text(text, encoding="utf-8")
            written[path] = None
    ruff = [sys.executable, "-m", "ruff", "format", "--quiet", "--config", root / "pyproject.toml"]
    subprocess.run([*ruff, *written], check=True, cwd=root)
    return list(written)


def rewrite(paths: list[Path], revised: Callable[[Path, str], str], check: bool) -> list[str]:
    """Replace the text of each file with what ``revised`` returns for its path and text.

    Returns the names of the files that change. If this is only a check, nothing is written.
    """
    changed = []
    for path in paths:
        before = path.read_text(encoding="utf-8")
        after = revised(path, before)
        if after != before:
            changed.append(path.name)
            if not check:
                write_whole(path, after)
    return changed


def out_of_step() -> list[str]:
    """List the modules that differ from what their chapters export, or that no chapter exports."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "notebooks", copy / "notebooks")
        shutil.copy(ROOT / "pyproject.toml", copy)
        (copy / "course_lib").mkdir()
        fresh = {path.name: path.read_text(encoding="utf-8") for path in export(copy)}
    modules = {p.name: p.read_text(encoding="utf-8") for p in (ROOT / "course_lib").glob("*.py")}
    stale = [name for name, text in fresh.items() if modules.get(name) != text]
    exported = [name for name, text in modules.items() if "File to edit: ../notebooks/" in text]
    return stale + [name for name in exported if name not in fresh]


def run(chapter: Path) -> float:
    """Execute a chapter in a fresh kernel, tidy and save it, and return how many seconds it took.

    Exits with a message if a cell needs weights that are missing.
    """
    notebook = nbformat.read(chapter, as_version=4)
    if any(NEEDS_WEIGHTS in cell.metadata.get("tags", []) for cell in notebook.cells):
        if missing := missing_weights():
            names = " and ".join(missing)
            sys.exit(f"{chapter.name} was not executed because it needs {names}; run: make weights")
    start = time.perf_counter()
    execute(notebook, cwd=str(chapter.parent), timeout=CELL_TIMEOUT, kernel_name="python3")
    seconds = time.perf_counter() - start
    tidy(notebook)
    nbformat.write(notebook, chapter)
    return seconds


def tidy(notebook: nbformat.NotebookNode) -> None:
    """Keep what a reader needs: sources, outputs, counts, tags, and whether a source is hidden.

    A saved widget does not work without a kernel, so we keep only the still picture of an explorer,
    and leave out progress bars, which do not have one.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    setup = setup_of(notebook.cells)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(metadata_of(cell, cell in setup))
        if cell.cell_type == "code":
            cell.outputs = keep_stills(cell.outputs)
            CoalesceStreamsPreprocessor().preprocess_cell(cell, {}, 0)


def setup_of(cells: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Return the import cells, if the guard opens the first of them."""
    code = [cell for cell in cells if cell.cell_type == "code"][:2]
    guard = GUARD.match(code[0].source) if code else None
    if guard is None or not code[0].source[guard.end() :]:
        return []
    return [code[0], *(cell for cell in code[1:] if "#| default_exp" in cell.source)]


def metadata_of(cell: nbformat.NotebookNode, is_setup: bool) -> dict:
    """Keep a cell's tags; fold the setup, helpers, and guesses, which contain the answers."""
    old = cell.metadata.get("tags", [])
    tags = [tag for tag in old if tag != HIDE]
    folded = is_setup or HIDE in old or cell.source.startswith("guess(")
    if folded and cell.cell_type == "code":
        return {**FOLDED, "tags": [*tags, HIDE]}
    return {"tags": tags} if tags else {}


def keep_stills(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Keep pictures as PNG and text, and remove the live view of every widget.

    GitHub and other viewers prefer HTML to PNG, but strip the pictures from the HTML. A widget
    without a still picture, such as a progress bar, loses its whole output.
    """
    for output in outputs:
        data = output.get("data", {})
        is_widget = data.pop(WIDGET, None)
        if "image/png" in data:
            data.pop("text/html", None)
        elif is_widget:
            data.clear()  # the plain text of a widget is useless
    return [output for output in outputs if output.get("data", True)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["export", "run"])
    parser.add_argument("chapters", nargs="*", type=Path, help="those to run (default: all)")
    options = parser.parse_args()
    if options.command == "export":
        print(*[path.relative_to(ROOT) for path in export()], sep="\n")
    else:
        for chapter in options.chapters or pages():
            print(f"{chapter.name}: {run(chapter):.0f} s", flush=True)
