"""The commands of the exercises: ``course lab``, ``workbook``, ``progress`` and ``grade``."""

import argparse
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from course_lib.exercises.grade import LIMIT, grade
from course_lib.exercises.learner_package import LIBRARY
from course_lib.exercises.progress import progress
from course_lib.exercises.workbook import copy_chapters, make_workbook, open_lab
from course_lib.trainer.options import whole_from_one


def add_command(
    commands: argparse._SubParsersAction, name: str, told: str, run: Callable
) -> argparse.ArgumentParser:
    """Add a command: what its help says, and what runs it."""
    command = commands.add_parser(name, help=told, description=told)
    command.set_defaults(run=run)
    return command


def add_learners_commands(commands: argparse._SubParsersAction) -> None:
    """Describe the commands that go with the exercises."""
    told = "copy the worked chapters, and open them in JupyterLab"
    opens = add_command(commands, "lab", told, lab_command)
    opens.add_argument("folder", type=Path, metavar="DIR", help="empty, new, or from last time")
    opens.add_argument("--copy-only", action="store_true", help="do not open them")
    opens.add_argument("options", nargs="*", help="after --, for JupyterLab, such as --allow-root")

    told = "write the learner's edition of the chapters"
    writes = add_command(commands, "workbook", told, workbook_command)
    writes.add_argument("folder", type=Path, metavar="DIR", help="an empty or a new folder")
    writes.add_argument("--force", action="store_true", help="anew; your changes are kept aside")
    writes.add_argument("--no-solutions", action="store_true", help="hints only, for a class")

    told = "list every exercise with its state and minutes"
    shows = add_command(commands, "progress", told, progress_command)
    where = "a workbook; . or workbook if not given"
    shows.add_argument("folder", type=Path, nargs="?", help=where)

    told = "check what learners wrote; their code runs here"
    grades = add_command(commands, "grade", told, grade_command)
    grades.add_argument("folder", type=Path, help="a workbook, its my_lib, or one of workbooks")
    grades.add_argument("--out", type=Path, metavar="DIR", help="for the tables; here if not given")
    grades.add_argument("--force", action="store_true", help="replace tables that are there")
    grades.add_argument("--limit", type=whole_from_one, default=LIMIT, help="seconds for a module")


def lab_command(options: argparse.Namespace) -> int:
    """Copy the chapters once, and open the first one in JupyterLab."""
    first = copy_chapters(options.folder)
    print(f"the chapters are in {first.parent}")
    return 0 if options.copy_only else open_lab(first, options.options)


def workbook_command(options: argparse.Namespace) -> int:
    """Write the workbook, and say what was kept aside."""
    folder = options.folder
    kept = make_workbook(folder, solutions=not options.no_solutions, force=options.force)
    if kept:
        print("kept aside what you had changed; to have a file back, copy it over the fresh one:")
    for path in kept:
        place = path.relative_to(folder)
        print(" ", shlex.join(["cp", str(path), str(folder.joinpath(*place.parts[1:]))]))
    first = min(folder.glob("[0-9][0-9]_*.ipynb"))
    print("the workbook is ready:", shlex.join(["jupyter", "lab", str(first)]))
    return 0


def progress_command(options: argparse.Namespace) -> int:
    """Print what is done and what is left."""
    here = Path(".") if Path(LIBRARY).is_dir() else Path("workbook")
    print(progress(options.folder or here).details())
    return 0


def grade_command(options: argparse.Namespace) -> int:
    """Grade, with a line for each learner on the way, and print the table."""
    tell = partial(print, file=sys.stderr)
    how = dict(force=options.force, limit=options.limit, tell=tell)
    try:
        text = grade(options.folder, options.out, **how)
    except KeyboardInterrupt:
        print("\nthe tables hold who was told above", file=sys.stderr)
        raise
    print(text, end="")
    return 0
