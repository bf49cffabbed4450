"""The commands for learners, such as ``learn`` and ``check``, and ``grade`` for teachers.

A command imports what needs torch only when it is called, because importing torch is slow.
"""

import argparse
import json
import os
import shlex
from dataclasses import asdict, replace
from pathlib import Path

from course_lib.cli.command_line import add_command, whole_from_one
from course_lib.exercises.checking.contents import items, module_of
from course_lib.exercises.grading.grade import LIMIT, grade
from course_lib.exercises.library.package import LIBRARY, find_library
from course_lib.exercises.library.progress import noted, progress
from course_lib.exercises.library.separate_process import examine_apart, state_of
from course_lib.exercises.workbook.jupyter_lab import next_chapter, open_in_jupyterlab, show_places
from course_lib.support.terminal import as_typed, paint, paint_signs, tell

USUAL = "(default: this folder if it is a workbook, otherwise workbook/)"
UNSAVED = "{} does not contain your answer yet. Run your cell, and then `export_mine()`."


def add_learners_commands(commands: argparse._SubParsersAction) -> None:
    """Add the commands for the exercises to the parser."""
    _add_chapter_commands(commands)
    _add_answer_commands(commands)


def _add_chapter_commands(commands: argparse._SubParsersAction) -> None:
    """Add the commands that write and open chapters."""
    learns = add_command(commands, "learn", learn_command)
    where = f"an existing workbook, or the folder for a new one {USUAL}"
    learns.add_argument("folder", nargs="?", metavar="DIR", help=where)
    opens = add_command(commands, "lab", lab_command)
    where = "a new or empty folder, or the one you used before (default: chapters)"
    opens.add_argument("folder", nargs="?", metavar="DIR", help=where)
    for command in (learns, opens):
        command.add_argument("--copy-only", action="store_true", help="do not open JupyterLab")
        command.add_argument(
            "options", nargs="*", help="options for JupyterLab, after --; example: -- --no-browser"
        )

    writes = add_command(commands, "workbook", workbook_command)
    writes.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    writes.add_argument(
        "--force",
        action="store_true",
        help="rewrite the chapters; files that you changed are first moved to a backup folder",
    )
    writes.add_argument(
        "--no-solutions", action="store_true", help="leave out the solutions, for use in a class"
    )


def _add_answer_commands(commands: argparse._SubParsersAction) -> None:
    """Add the commands that show and check answers."""
    shows = add_command(commands, "progress", progress_command)
    shows.add_argument("folder", type=Path, nargs="?", help=f"the workbook {USUAL}")
    lists = shows.add_mutually_exclusive_group()
    lists.add_argument("--all", action="store_true", help="list every exercise")
    lists.add_argument("--parts", action="store_true", help="list the parts of your library")

    checks = add_command(commands, "check", check_command)
    checks.add_argument("name", help="name of the exercise, such as causal_mask")
    checks.add_argument("--folder", type=Path, default=Path(), metavar="DIR", help="the workbook")
    checks.add_argument("--json", action="store_true", help="print one JSON object")

    grades = add_command(commands, "grade", grade_command)
    grades.add_argument(
        "folder", type=Path, help="a workbook, its my_lib, or a folder of workbooks"
    )
    grades.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for grades.csv (default: current folder)"
    )
    grades.add_argument("--force", action="store_true", help="replace an existing grades.csv")
    grades.add_argument(
        "--limit",
        type=whole_from_one,
        default=LIMIT,
        help="time limit in seconds for each module (default: %(default)s)",
    )


def learn_command(options: argparse.Namespace) -> int:
    """Create the workbook or restore its missing files, and open the next chapter."""
    from course_lib.exercises.workbook.workbook_folder import restore_workbook

    folder, for_jupyterlab = _folder_and_options(options, usual_workbook())
    written, current = restore_workbook(folder)
    if f"{LIBRARY}/__init__.py" in written:
        print(f"We created a new workbook in {folder}.")
    elif written:
        print(f"We restored the missing files: {', '.join(written)}.")
    if not current:
        again = as_typed("workbook", str(folder), "--force")
        print(f"{folder} is from a different edition of the course; we did not change its files.")
        print(f"To write its chapters again (we first move the files that you changed): {again}")
    first = next_chapter(folder)
    show_places(folder, first, "learn")
    return 0 if options.copy_only else open_in_jupyterlab(folder, first, for_jupyterlab)


def lab_command(options: argparse.Namespace) -> int:
    """Copy any completed chapters that are missing, and open the first chapter."""
    from course_lib.exercises.workbook.workbook_folder import copy_chapters

    here = Path("notebooks", "00_start_here.ipynb").is_file()
    folder, for_jupyterlab = _folder_and_options(options, "." if here else "chapters")
    first = copy_chapters(folder)
    print(f"These chapters show every answer. To write your own, run: {as_typed('learn')}")
    show_places(folder, first, "lab")
    return 0 if options.copy_only else open_in_jupyterlab(folder, first, for_jupyterlab)


def _folder_and_options(options: argparse.Namespace, usual: str) -> tuple[Path, list[str]]:
    """Return the folder and the options for JupyterLab; the user may omit the folder."""
    if (options.folder or "").startswith("-"):
        return Path(usual), [options.folder, *options.options]
    return Path(options.folder or usual), options.options


def workbook_command(options: argparse.Namespace) -> int:
    """Write the workbook, and print commands to restore the changed files that were moved."""
    from course_lib.exercises.workbook.workbook_folder import make_workbook

    folder = options.folder
    moved = make_workbook(folder, solutions=not options.no_solutions, force=options.force)
    if moved:
        print("we moved the files that you had changed; these commands bring them back:")
    for path in moved:
        place = path.relative_to(folder)
        print(" ", shlex.join(["cp", str(path), str(folder.joinpath(*place.parts[1:]))]))
    show_places(folder, next_chapter(folder), "learn")
    return 0


def progress_command(options: argparse.Namespace) -> int:
    """Print how much of the course is done, and what comes next."""
    folder = options.folder or Path(usual_workbook())
    found = progress(folder)
    shown = found.listing() if options.all else found.parts() if options.parts else found.bars()
    print(paint_signs(shown))
    if item := found.next_item:
        where = [str(options.folder)] if options.folder else []
        inside = "JUPYTER_SERVER_URL" in os.environ  # a terminal of JupyterLab
        how = f"open {next_chapter(folder).name}" if inside else as_typed("learn", *where)
        start = paint(how, "cyan")
        print(f"\nNext: chapter {item.chapter:02}, {item.name} ({item.minutes} min): {start}")
    return 0


def usual_workbook() -> str:
    """Return the current folder if it is a workbook, and otherwise ``workbook``."""
    return "." if Path(LIBRARY).is_dir() else "workbook"


def check_command(options: argparse.Namespace) -> int:
    """Check one answer in the learner's library, and print the report."""
    for item in items():
        if item.name == options.name and item.kind != "build":
            raise ValueError(f"{item.name} is checked by its cell in chapter {item.chapter:02}")
    module = module_of(options.name)
    package = find_library(options.folder)
    tell(f"Checking {options.name} in {package}")
    (report,) = examine_apart(package, {module: [options.name]}, LIMIT).values()
    if not report.attempted and not report.hint:
        report = replace(report, hint=UNSAVED.format(f"{LIBRARY}/{module}.py"))
    if report.passed:
        report = replace(report, after=progress(options.folder).after(options.name))
    if options.json:
        state = {"state": state_of(report), "complete": report.complete}
        state["in_the_chapter"] = _in_chapter(package, options.name)
        print(json.dumps(asdict(report) | state))
    else:
        print(paint_signs(str(report)))
    where = [] if options.folder == Path() else [str(options.folder)]
    again = ["check", options.name, *(["--folder", *where] if where else [])]
    after = "" if report.passed else "Change your cell, run it and `export_mine()`, and then: "
    tell(f"Next: {after}{as_typed(*(['progress', *where] if report.passed else again))}")
    return 0 if report.passed else 1


def _in_chapter(package: Path, name: str) -> dict[str, str | None]:
    """Return what the chapter's check found when the learner last ran the exercise's cell.

    That attempt may have failed, even though ``my_lib`` contains only answers that passed.
    """
    from course_lib.exercises.checking.exercise import known_mistakes

    kept = noted(package, name)
    meanings = {mistake.name: mistake.sentence for mistake in known_mistakes(name)}
    return kept | {"means": meanings.get(kept["mistake"] or "")}


def grade_command(options: argparse.Namespace) -> int:
    """Grade the learners, and print a line for each one."""
    grade(options.folder, options.out, force=options.force, limit=options.limit)
    return 0
