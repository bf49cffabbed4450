"""The command ``course``: train a translator or a GPT, use and measure it; write a workbook.

Translators are of number words, or with ``--task multi30k`` of captions; ``--task gpt`` is a model
that goes on with a text (``course train --task gpt --help``).
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import nn

from course_lib.data.multi30k_files import download_multi30k
from course_lib.exercises.grade import LIMIT, grade
from course_lib.exercises.library import LIBRARY
from course_lib.exercises.mutants import RECORDS, ReversalConfig, record
from course_lib.exercises.progress import progress
from course_lib.exercises.workbook import copy_chapters, make_workbook
from course_lib.interop.download import MODELS, continue_with, download, translate_with
from course_lib.probes import probe
from course_lib.tasks.commands import STOPPED, TASKS, add_commands
from course_lib.trainer.options import whole_from_one

NO_MEMORY = ("can't allocate memory", "out of memory")  # torch's words on a CPU, and on a GPU


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after ``course``; those of the process unless given.

    Returns:
        The exit code: 0, 1 if a probe fails, 2 for what cannot be done (said in one sentence), 130
        after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser(task_of(arguments)).parse_args(arguments)
    try:
        run = published_command if getattr(options, "weights", None) else options.run
        code = run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read it has enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        return 0
    except (ValueError, OSError) as error:
        print(f"course {options.command}: {error}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        said = str(error)
        if isinstance(error, RuntimeError) and not any(words in said for words in NO_MEMORY):
            raise
        sentence = "it does not fit into the memory; take a smaller model or smaller batches"
        print(f"course {options.command}: {sentence}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\ncourse {options.command}: stopped", file=sys.stderr)
        return STOPPED


def task_of(arguments: Sequence[str]) -> str:
    """Find what the commands are about; only a GPT samples."""
    usual = "gpt" if arguments[:1] == ["sample"] else "numbers"
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--task", "--tas", "--ta", default=usual)  # as argparse abbreviates it
    return finder.parse_known_args(arguments)[0].task


def parser(task: str = "numbers") -> argparse.ArgumentParser:
    """Describe the commands and their options.

    Args:
        task: What they are about; each task has options of its own.
    """
    top = argparse.ArgumentParser(prog="course", description=__doc__)
    top.add_argument("--version", action="version", version=f"course {version('course-lib')}")
    commands = top.add_subparsers(dest="command", required=True)
    add_commands(commands, TASKS.get(task, TASKS["numbers"]))
    _add_published(commands)
    _add_learners_commands(commands)
    _add_probes(commands)
    return top


def _add_published(commands: argparse._SubParsersAction) -> None:
    """Describe what gets and uses published models, and the only command that needs a network."""
    for name in {"translate", "sample"} & commands.choices.keys():
        commands.choices[name].add_argument(
            "--weights", type=Path, metavar="FOLDER", help="of a published model (chapter 20)"
        )
    downloads = commands.add_parser("download", help="get a corpus or a model once, checked")
    downloads.set_defaults(run=download_command)
    downloads.add_argument("name", choices=("multi30k", *MODELS))
    downloads.add_argument("folder", type=Path, metavar="DIR")


def download_command(options: argparse.Namespace) -> int:
    """Get what is missing, and say where it is."""
    if options.name not in MODELS:
        folder = download_multi30k(options.folder)
        where = f"--data {options.folder}"
        print(f"Multi30k is in {folder}; now: course train --task multi30k {where}")
        return 0
    folder = download(options.name, options.folder)
    print(f"{options.name} is in {folder}; licence: {MODELS[options.name].licence}")
    return 0


def published_command(options: argparse.Namespace) -> int:
    """Translate, or go on with a text, with published weights."""
    if options.command == "translate":
        print(translate_with(options.weights, [" ".join(options.text)])[0])
        return 0
    how = dict(temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)
    print(continue_with(options.weights, options.prompt or "", options.tokens, options.draw, **how))
    return 0


def lab_command(options: argparse.Namespace) -> int:
    """Copy the chapters once, and open the first one in JupyterLab."""
    first = copy_chapters(options.folder)
    print(f"the chapters are in {first.parent}")
    if options.copy_only:
        return 0
    if find_spec("jupyterlab") is None:
        raise ValueError("JupyterLab is not installed: python -m pip install jupyterlab")
    lab = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={options.folder}"]
    return subprocess.call([*lab, str(first), *options.options])


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

    def tell(line: str) -> None:
        """Print a line beside the table."""
        print(line, file=sys.stderr)

    out = options.out
    force = options.force
    try:
        text = grade(options.folder, out, force=force, limit=options.limit, tell=tell)
    except KeyboardInterrupt:
        print("\nstopped; the tables hold who was told above", file=sys.stderr)
        return STOPPED
    print(text, end="")
    return 0


def probe_command(options: argparse.Namespace) -> int:
    """Probe what a function of the user's makes; 1 when a probe fails."""
    module, _, name = options.factory.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        made = getattr(import_module(module), name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"{options.factory} makes no model: {error}") from error
    arguments = made if isinstance(made, dict) else {"model": made}
    if not isinstance(arguments.get("model"), nn.Module):
        raise ValueError(f"{options.factory} returns neither a model nor a dict with one")
    sizes = {"vocab_size": options.vocab_size, "pad_id": options.pad_id}
    arguments |= {key: value for key, value in sizes.items() if value is not None}
    if "vocab_size" not in arguments:
        raise ValueError("how many ids does the model know? Say --vocab-size")
    results = probe(**arguments)
    for result in results:
        print(result)
    return int(not all(result.passed for result in results))


def mutants_command(options: argparse.Namespace) -> int:
    """Probe and train the known mistakes that the records lack."""
    torch.set_num_threads(1)
    record(options.seeds, options.steps, options.folder, tell=print)
    return 0


def _add_probes(commands: argparse._SubParsersAction) -> None:
    """Describe the commands that look for mistakes in models."""
    probes = commands.add_parser("probe", help="look for mistakes in a model of yours")
    probes.set_defaults(run=probe_command)
    probes.add_argument("factory", metavar="MODULE:FUNCTION", help="returns it, or probe()'s dict")
    probes.add_argument("--vocab-size", type=whole_from_one, metavar="V")
    probes.add_argument("--pad-id", type=int, metavar="ID")

    trains = commands.add_parser("mutants", help="train the known mistakes (hours)")
    trains.set_defaults(run=mutants_command)
    trains.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    trains.add_argument("--steps", type=whole_from_one, default=ReversalConfig.steps)
    trains.add_argument("--folder", type=Path, default=RECORDS, help="of the two records")


def _add_learners_commands(commands: argparse._SubParsersAction) -> None:
    """Describe the commands that go with the exercises."""
    opens = commands.add_parser("lab", help="copy the worked chapters, and open them in JupyterLab")
    opens.set_defaults(run=lab_command)
    opens.add_argument("folder", type=Path, metavar="DIR", help="empty, new, or from last time")
    opens.add_argument("--copy-only", action="store_true", help="do not open them")
    opens.add_argument("options", nargs="*", help="after --, for JupyterLab, such as --allow-root")

    writes = commands.add_parser("workbook", help="write the learner's edition of the chapters")
    writes.set_defaults(run=workbook_command)
    writes.add_argument("folder", type=Path, metavar="DIR", help="an empty or a new folder")
    writes.add_argument("--force", action="store_true", help="anew; your changes are kept aside")
    writes.add_argument("--no-solutions", action="store_true", help="hints only, for a class")

    shows = commands.add_parser("progress", help="list every exercise with its state and minutes")
    shows.set_defaults(run=progress_command)
    shows.add_argument(
        "folder", type=Path, nargs="?", help="a workbook; . or workbook if not given"
    )

    grades = commands.add_parser("grade", help="check what learners wrote; their code runs here")
    grades.set_defaults(run=grade_command)
    grades.add_argument(
        "folder", type=Path, help="a workbook, its my_lib, or a folder of workbooks"
    )
    grades.add_argument("--out", type=Path, metavar="DIR", help="for the tables; here if not given")
    grades.add_argument("--force", action="store_true", help="replace tables that are there")
    grades.add_argument("--limit", type=whole_from_one, default=LIMIT, help="seconds for a module")


if __name__ == "__main__":
    sys.exit(main())
