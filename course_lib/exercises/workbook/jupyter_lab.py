"""Open chapters in JupyterLab, and print where everything is."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from course_lib.exercises.library.package import LIBRARY
from course_lib.exercises.library.progress import progress
from course_lib.support.terminal import as_typed, environment_path

ALLOW_ROOT = "--allow-root"


def show_places(folder: Path, first: Path, again: str) -> None:
    """Print where the chapters, the first file and the learner's library are, and how to open them.

    ``again`` is the name of the command that opens the folder.
    """
    print("chapters:    ", first.resolve().parent)
    print("opens:       ", first.name)
    if (folder / LIBRARY).is_dir():
        print("your library:", (folder / LIBRARY).resolve())
    print("to open it:  ", as_typed(again, str(folder)), flush=True)


def next_chapter(workbook: Path) -> Path:
    """Return the first chapter with an unfinished exercise, or the last one if all are done."""
    item = progress(workbook).next_item
    chapters = sorted(workbook.glob("[0-9][0-9]_*.ipynb"))
    open_ones = (path for path in chapters if item and int(path.name[:2]) >= item.chapter)
    return next(open_ones, chapters[-1])


def open_in_jupyterlab(root: Path, first: Path, options: Sequence[str]) -> int:
    """Open a file in JupyterLab, which shows the folder ``root``; return JupyterLab's exit code.

    Terminals in JupyterLab start in this folder and find this environment's programs first.
    """
    if find_spec("jupyterlab") is None:
        install = as_typed("install", "jupyterlab", "ipykernel", program="pip")
        raise ValueError(f"JupyterLab is not installed; run `{install}`")
    page = quote(first.relative_to(root).as_posix())  # JupyterLab also prints this in its address
    added = [f"--ServerApp.root_dir={root.resolve()}", f"--LabApp.default_url=/lab/tree/{page}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and ALLOW_ROOT not in options:
        print(f"You are running as root, so we start JupyterLab with {ALLOW_ROOT}.")
        added.append(ALLOW_ROOT)
    print("To stop JupyterLab, save your work and press Ctrl-C twice in this terminal.", flush=True)
    command = [sys.executable, "-m", "jupyterlab", *added, *options]
    environment = os.environ | {"PATH": environment_path()}
    process = subprocess.Popen(command, env=environment, cwd=root)
    usual = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),  # it asks whether to stop
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        return process.wait()
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
