"""The commands ``lab``, ``workbook``, ``progress`` and ``check`` for learners, and ``grade``."""

import argparse
import json
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

from course_lib.command_line import as_typed
from course_lib.exercises.exercise_bank import exercise
from course_lib.exercises.grade import LIMIT, grade
from course_lib.exercises.learner_package import LIBRARY, find_library
from course_lib.exercises.progress import progress
from course_lib.exercises.separate_process import examine_apart, state_of
from course_lib.exercises.workbook import copy_chapters, make_workbook
from course_lib.terminal import add_command, paint, paint_signs, tell, whole_from_one

UNSAVED = "{} has no answer of yours yet. Run your cell, and then `export_mine()`."


def add_learners_commands(commands: argparse._SubParsersAction) -> None:
    """Describe the commands that go with the exercises."""
    purpose = "copy the worked chapters, and open them in JupyterLab"
    opens = add_command(commands, "lab", purpose, lab_command)
    opens.add_argument("folder", type=Path, metavar="DIR", help="new, empty, or from last time")
    opens.add_argument("--copy-only", action="store_true", help="do not open JupyterLab")
    opens.add_argument("options", nargs="*", help="after --, for JupyterLab, such as --allow-root")

    purpose = "write a workbook: the chapters without their answers"
    writes = add_command(commands, "workbook", purpose, workbook_command)
    writes.add_argument("folder", type=Path, metavar="DIR", help="a new or an empty folder")
    writes.add_argument("--force", action="store_true", help="write it again; keep your changes")
    writes.add_argument("--no-solutions", action="store_true", help="for a class: hints only")

    purpose = "show how much of each chapter is done, and what comes next"
    shows = add_command(commands, "progress", purpose, progress_command)
    where = "a workbook; . or workbook if not given"
    shows.add_argument("folder", type=Path, nargs="?", help=where)
    shows.add_argument("--all", action="store_true", help="list every exercise")

    purpose = "check an answer in your my_lib; exits with 0 if it is correct, and with 1 if not"
    checks = add_command(commands, "check", purpose, check_command)
    checks.add_argument("name", help="the exercise, such as causal_mask")
    checks.add_argument("--folder", type=Path, default=Path(), metavar="DIR", help="a workbook")
    checks.add_argument("--json", action="store_true", help="print one JSON object")

    purpose = "check what learners wrote; their code runs on this computer"
    grades = add_command(commands, "grade", purpose, grade_command)
    grades.add_argument("folder", type=Path, help="a workbook, its my_lib, or one of workbooks")
    grades.add_argument("--out", type=Path, metavar="DIR", help="for the table; here if not given")
    grades.add_argument("--force", action="store_true", help="replace an existing table")
    grades.add_argument("--limit", type=whole_from_one, default=LIMIT, help="seconds for a module")


def lab_command(options: argparse.Namespace) -> int:
    """Copy the chapters unless they are there, and open the first one in JupyterLab."""
    first = copy_chapters(options.folder)
    print(f"the chapters are in {first.parent}")
    if options.copy_only:
        return 0
    if find_spec("jupyterlab") is None:
        raise ValueError("JupyterLab is not installed; run: pip install jupyterlab ipykernel")
    root = f"--ServerApp.root_dir={options.folder}"
    command = [sys.executable, "-m", "jupyterlab", root, str(first), *options.options]
    return subprocess.call(command)


def workbook_command(options: argparse.Namespace) -> int:
    """Write the workbook, and say which changed files were moved."""
    folder = options.folder
    moved = make_workbook(folder, solutions=not options.no_solutions, force=options.force)
    if moved:
        print("we moved the files that you had changed; these commands bring them back:")
    for path in moved:
        place = path.relative_to(folder)
        print(" ", shlex.join(["cp", str(path), str(folder.joinpath(*place.parts[1:]))]))
    first = min(folder.glob("[0-9][0-9]_*.ipynb"))
    print("the workbook is ready:", shlex.join(["jupyter", "lab", str(first)]))
    return 0


def progress_command(options: argparse.Namespace) -> int:
    """Print how much is done, and what comes next."""
    here = Path(".") if Path(LIBRARY).is_dir() else Path("workbook")
    found = progress(options.folder or here)
    print(paint_signs(found.listing() if options.all else found.bars()))
    if item := found.next_item:
        where = [str(options.folder)] if options.folder else []
        start = paint(as_typed("learn", *where), "cyan")
        print(f"\nNext: chapter {item.chapter:02}, {item.name} ({item.minutes} min): {start}")
    return 0


def check_command(options: argparse.Namespace) -> int:
    """Check one answer in the learner's library, and print the report."""
    module = exercise(options.name).module
    package = find_library(options.folder)
    tell(f"Checking {options.name} in {package}")
    (report,) = examine_apart(package, {module: [options.name]}, LIMIT).values()
    if not report.attempted and not report.hint:
        report = replace(report, hint=UNSAVED.format(f"{LIBRARY}/{module}.py"))
    if options.json:
        state = {"state": state_of(report), "complete": report.complete}
        state |= {"mistake": report.mistake or None}
        print(json.dumps(asdict(report) | state))
    else:
        print(paint_signs(str(report)))
    where = [] if options.folder == Path() else [str(options.folder)]
    again = ["check", options.name, *(["--folder", *where] if where else [])]
    after = "" if report.passed else "Change your cell, run it and `export_mine()`, and then: "
    tell(f"Next: {after}{as_typed(*(['progress', *where] if report.passed else again))}")
    return 0 if report.passed else 1


def grade_command(options: argparse.Namespace) -> int:
    """Grade, and print a line for each learner."""
    grade(options.folder, options.out, force=options.force, limit=options.limit)
    return 0
