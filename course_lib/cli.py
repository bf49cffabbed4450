"""The command ``course``: train a translator or a GPT, use and measure it; write a workbook.

Translators are of number words, or with ``--task multi30k`` of captions; ``--task gpt`` is a model
that goes on with a text (``course train --task gpt --help``).
"""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from course_lib.data import LANGUAGES, check_number_words, draw_pairs
from course_lib.exercises.grade import LIMIT, grade
from course_lib.exercises.notebook_builder import LIBRARY
from course_lib.exercises.progress import progress
from course_lib.exercises.workbook import make_workbook
from course_lib.interop.download import MODELS, continue_with, download, translate_with
from course_lib.tasks import language_model_commands as language
from course_lib.tasks import multi30k_commands as real
from course_lib.tasks.numbers import (
    TranslatorConfig,
    checkpoint_path,
    load_or_train,
    load_translator,
    train_translator,
    translated_exactly,
)
from course_lib.trainer.distributed import refuse_several_processes
from course_lib.trainer.machine import describe_machine
from course_lib.trainer.options import whole_from_one
from course_lib.trainer.results import add_entry
from course_lib.trainer.signals import STOPPED, graceful_shutdown, stopped_at_once

TASKS = ("numbers", "multi30k", "gpt")
NO_MEMORY = ("can't allocate memory", "out of memory")  # torch's words on a CPU, and on a GPU


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The words after ``course``; those of the process unless given.

    Returns:
        The exit code: 0, 2 for what cannot be done (said in one sentence), 130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser(_task(arguments)).parse_args(arguments)
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


def _task(arguments: Sequence[str]) -> str | None:
    """Find what the commands are about; each task has options of its own."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--task", "--tas", "--ta")  # as argparse abbreviates it
    return finder.parse_known_args(arguments)[0].task


def parser(task: str | None = None) -> argparse.ArgumentParser:
    """Describe the commands and their options.

    Args:
        task: ``"multi30k"``, ``"gpt"``, or number words.
    """
    top = argparse.ArgumentParser(prog="course", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    wings = {"multi30k": real.add_commands, "gpt": language.add_commands}
    wings.get(task, _add_numbers)(commands)
    language.add_sample(commands)
    _add_published(commands)
    _add_learners_commands(commands)
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
        return real.download_command(options)
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


def _add_numbers(commands: argparse._SubParsersAction) -> None:
    """Describe train, translate and evaluate for number words."""
    default = TranslatorConfig()
    trains = commands.add_parser("train", help="train the number translator (half a minute)")
    trains.set_defaults(run=train_command)
    trains.add_argument("--steps", type=whole_from_one, default=default.steps, help="the last step")
    trains.add_argument("--save-every", type=whole_from_one, default=100, metavar="STEPS")
    trains.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    trains.add_argument("--force", action="store_true", help="replace a checkpoint that is there")

    translates = commands.add_parser("translate", help="translate a number in English words")
    translates.set_defaults(run=translate_command)
    translates.add_argument("text", nargs="+", help='such as "three hundred forty-five"')

    evaluates = commands.add_parser("evaluate", help="translate numbers never seen, and count")
    evaluates.set_defaults(run=evaluate_command)
    evaluates.add_argument(
        "--count", type=whole_from_one, default=1000, help="how many test numbers"
    )
    evaluates.add_argument("--seeds", type=int, nargs="+", default=[0], help="one training each")
    evaluates.add_argument("--record", type=Path, metavar="FILE", help="add the results to it")

    for command in (trains, translates, evaluates):
        command.add_argument("--to", choices=LANGUAGES, default="de", help="the language")
        command.add_argument("--task", choices=TASKS, help="number words, captions, or a text")
    for command in (trains, translates):
        command.add_argument("--seed", type=int, default=0)
        command.add_argument("--checkpoint", type=Path, help="a file of your own")


def train_command(options: argparse.Namespace) -> int:
    """Train, with a progress bar and checkpoints."""
    refuse_several_processes("the number translator")
    config = TranslatorConfig(to=options.to, seed=options.seed, steps=options.steps)
    path = options.checkpoint or checkpoint_path(config)
    if path.exists() and not (options.resume or options.force):
        raise ValueError(f"{path} is there; --resume goes on from it, --force starts anew")
    saved = []
    try:
        with graceful_shutdown() as stop:
            train_translator(
                config,
                path=path,
                resume=options.resume,
                save_every=options.save_every,
                after_save=saved.append,
                stop=stop,
            )
    except KeyboardInterrupt:
        if not saved:
            return stopped_at_once(path)
        kept = f"kept up to step {saved[-1]}"
        print(f"\nstopped; {kept}; go on with the same command and --resume", file=sys.stderr)
        return STOPPED
    print(f"trained to step {config.steps}: {path}")
    return 0


def translate_command(options: argparse.Namespace) -> int:
    """Translate one text."""
    text = " ".join(" ".join(options.text).split()).lower()
    check_number_words(text)
    path = options.checkpoint or checkpoint_path(TranslatorConfig(to=options.to, seed=options.seed))
    if not path.exists():
        where = f" --checkpoint {path}" if options.checkpoint else ""
        raise ValueError(
            f"there is no translator at {path}; run: "
            f"course train --to {options.to} --seed {options.seed}{where}"
        )
    translator, _ = load_translator(path)
    if translator.config.to != options.to:
        raise ValueError(f"{path} translates to --to {translator.config.to}, not {options.to}")
    print(translator.translate([text])[0])
    return 0


def evaluate_command(options: argparse.Namespace) -> int:
    """Measure exact match on test numbers, for every seed."""
    pairs = draw_pairs("test", options.count, to=options.to)
    shares = []
    for seed in options.seeds:
        translator = load_or_train(TranslatorConfig(to=options.to, seed=seed))
        shares.append(translated_exactly(translator, pairs))
        print(f"{options.to}, seed {seed}: exact match {shares[-1]:.3f} on {len(pairs)} numbers")
        if options.record:
            add_entry(
                options.record,
                {
                    "to": options.to,
                    "seed": seed,
                    "steps": translator.config.steps,
                    "count": len(pairs),
                    "exact_match": shares[-1],
                    "parameters": sum(p.numel() for p in translator.model.parameters()),
                    "machine": describe_machine("cpu"),
                },
                lambda entry: [entry["to"], entry["seed"]],
            )
    mean = sum(shares) / len(shares)
    print(f"{options.to}: mean {mean:.4f}, range {min(shares):.3f} to {max(shares):.3f}")
    return 0


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
    print(repr(progress(options.folder or here)))
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
        print("\nstopped; no table was written", file=sys.stderr)
        return STOPPED
    print(text, end="")
    return 0


def _add_learners_commands(commands: argparse._SubParsersAction) -> None:
    """Describe the commands that go with the exercises."""
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
