"""The command ``course``: train a translator or a GPT, use and measure it; write a workbook.

Translators are of number words, or with ``--task multi30k`` of captions; ``--task gpt`` is a model
that goes on with a text (``course train --task gpt --help``).
`course sample` lets a GPT, or a published model, go on with a text.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence, Set
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import torch

from course_lib.data.multi30k_files import download_multi30k
from course_lib.exercises.commands import add_command, add_learners_commands
from course_lib.interop.download import MODELS, continue_with, download, translate_with
from course_lib.probes import probe_made
from course_lib.tasks.language_model import LanguageModel
from course_lib.tasks.multi30k import Multi30k
from course_lib.tasks.numbers import Numbers
from course_lib.trainer import run_folder
from course_lib.trainer.averaging import kept_weights, load_average
from course_lib.trainer.checkpoint import QUOTED
from course_lib.trainer.distributed import World, init_distributed, is_restarted, job
from course_lib.trainer.hardware import bfloat16_pays, prepare_machine
from course_lib.trainer.loop import graceful_shutdown, start, train
from course_lib.trainer.options import setting_of, whole_from_one
from course_lib.trainer.results import add_entry, read_entries
from course_lib.trainer.task import Pipeline, Task, TrainState

TASKS: dict[str, type[Task]] = {task.name: task for task in (Numbers, Multi30k, LanguageModel)}
STOPPED = 130  # the exit code after Ctrl-C
SHARD = "under torchrun: no process holds all weights (FSDP2); else each has a copy (DDP)"
PARTS = "micro-batches of a step: less memory, the same gradients"
MOST_PARTS = 1_024
USUAL = "%(default)s unless given"
NO_MEMORY = ("can't allocate memory", "out of memory")  # torch's words on a CPU, and on a GPU


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: the words after ``course``, those of the process unless given.

    Returns:
        The exit code: 0, 1 if a probe fails, 2 for what cannot be done (said in one sentence), 130
        after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
    options = parser(task_of(arguments)).parse_args(arguments)
    try:
        " ".join(arguments).encode()  # refused if it is no text in UTF-8
        run = published_command if getattr(options, "weights", None) else options.run
        code = run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read it has enough
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        return 0
    except (ValueError, OSError) as error:
        sentence = str(error)
    except (MemoryError, RuntimeError) as error:
        told = any(words in str(error) for words in NO_MEMORY)
        if not told and not isinstance(error, MemoryError):
            raise
        sentence = "it does not fit into the memory; take a smaller model or smaller batches"
    except KeyboardInterrupt:
        print(f"\ncourse {options.command}: stopped", file=sys.stderr)
        return STOPPED
    print(f"course {options.command}: {shortened(sentence)}", file=sys.stderr)
    return 2


class Parser(argparse.ArgumentParser):
    """Refuse options in a sentence that quotes no long word whole."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and exit with 2."""
        super().error(shortened(message))


def shortened(sentence: str) -> str:
    """Cut words that are longer than what is quoted of somebody else's."""
    return re.sub(rf"(\S{{{QUOTED}}})\S+", r"\1…", sentence)


def task_of(arguments: Sequence[str]) -> str:
    """Find what the commands are about; only a GPT samples."""
    usual = "gpt" if arguments[:1] == ["sample"] else "numbers"
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    names = ("--task", "--tas", "--ta")  # as argparse abbreviates it
    finder.add_argument(*names, nargs="?")  # without a value: refused later
    return finder.parse_known_args(arguments)[0].task or usual


def parser(task: str = "numbers") -> argparse.ArgumentParser:
    """Describe the commands and their options; each task has options of its own."""
    top = Parser(prog="course", description=__doc__)
    top.add_argument("--version", action="version", version=f"course {version('course-lib')}")
    commands = top.add_subparsers(dest="command", required=True)
    _add_training(commands, TASKS.get(task, TASKS["numbers"]))
    _add_published(commands)
    add_learners_commands(commands)
    _add_probes(commands)
    return top


def _add_training(commands: argparse._SubParsersAction, task: type[Task]) -> None:
    """Describe what can be done with a task; another one has other options."""
    what = task.kind.what
    trains = add_command(commands, "train", f"train {what} ({task.takes})", train_command)
    setting = dict(type=setting_of(task.kind.config_class), action="append", default=[])
    trains.add_argument("--set", metavar="NAME=VALUE", help="any hyperparameter", **setting)
    trains.add_argument("--minutes", type=float, help="stop, to be resumed, after so many in all")
    trains.add_argument("--shard", action="store_true", help=SHARD)
    trains.add_argument("--accumulate", type=whole_from_one, default=1, metavar="K", help=PARTS)
    kept = trains.add_mutually_exclusive_group()
    kept.add_argument("--resume", action="store_true", help="go on from what is kept")
    kept.add_argument("--force", action="store_true", help="replace what is kept")
    evaluates = add_command(commands, "evaluate", "measure what was trained", evaluate_command)
    evaluates.add_argument("--record", type=Path, metavar="FILE", help="add the results to it")
    writes = add_command(commands, task.verb, f"use {what}", write_command)
    for command, own in {trains: {}, evaluates: task.evaluating, writes: task.writing}.items():
        _add_options(command, task, own)


def _add_options(
    command: argparse.ArgumentParser, task: type[Task], own: dict[str, dict[str, Any]]
) -> None:
    """Describe which training is meant, what computes, and what else a task needs."""
    told = "what learns; each has its own options"
    command.add_argument("--task", choices=TASKS, default=task.name, help=told)
    command.add_argument("--size", choices=task.sizes, default=[*task.sizes][0], help=USUAL)
    for name, how in {"seed": dict(type=int), **task.settings}.items():
        command.add_argument(f"--{name}", **how)
    command.add_argument("--data", type=Path, metavar="DIR", help="texts, or COURSE_DATA")
    command.add_argument("--out", type=Path, metavar="DIR", help="a folder of your own")
    threads = task.threads or torch.get_num_threads()
    command.add_argument("--threads", type=int, default=threads, help=USUAL)
    devices = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu", "cuda")
    command.add_argument("--device", choices=devices, default=devices[0], help=USUAL)
    for name, how in own.items():
        command.add_argument(name, **how)


def train_command(options: argparse.Namespace) -> int:
    """Train, resumably, with a progress bar, checkpoints and a log."""
    prepare_machine(options.threads, options.device)
    if options.minutes is not None and not options.minutes >= 0:
        raise ValueError(f"--minutes {options.minutes}: a number from 0 is needed")
    if options.accumulate > MOST_PARTS:
        raise ValueError(f"--accumulate {options.accumulate} is not from 1 to {MOST_PARTS}")
    out = _folder(options)
    try:
        with init_distributed(options.device) as world:
            return _train(options, out, world)
    except KeyboardInterrupt:  # before the first step, or for the second time
        last = run_folder.find_checkpoint(out)
        kept = f"{last} is as it was kept last" if last else "nothing is kept yet"
        kept += ", and --resume goes on from it" if last and not options.force else ""
        print(f"\nstopped at once; {kept}", file=sys.stderr)
        return STOPPED


def _train(options: argparse.Namespace, out: Path, world: World) -> int:
    """Train to the end, or to the end of the step at which somebody asks to stop."""
    with run_folder.locked(out) if world.is_main else nullcontext():
        state, anew = _begin(options, out, world)
        with graceful_shutdown(patient=world.size > 1) as stop:
            if anew:  # what was there is removed when the new one is on disk
                run_folder.save(state, out)
            done = train(state, out, minutes=options.minutes, stop=stop)
    spent = f"{state.seconds['wall'] / 60:.1f} minutes in all"
    how = "--resume in place of --force" if options.force else "--resume"
    if world.is_main and done:
        print(f"trained to step {state.step}, {spent}: {out}")
    elif world.is_main:
        print(f"stopped at step {state.step}, {spent}; go on with the same command and {how}")
    return STOPPED if stop() and not done and world.size == 1 else 0


def _begin(options: argparse.Namespace, out: Path, world: World) -> tuple[TrainState, bool]:
    """Start or go on; return the training, and whether it begins anew."""
    task = TASKS[options.task]
    asked = options.resume or (is_restarted() and run_folder.find_checkpoint(out))
    kept, content = run_folder.read_kept(task.kind, out) if asked else (None, {})
    resume = options.resume or content.get("job") == job()
    if not (resume or options.force):
        _refuse_kept(out)
    chosen = _chosen(options)
    if task.measures_bfloat16 and "bfloat16" not in chosen:
        has_it = options.device == "cuda"  # a GPU that trains today
        fast = kept.config.bfloat16 if resume else has_it or bfloat16_pays()
        chosen["bfloat16"] = world.any_rank(fast, options.device)  # all take what any has found
    config = task.kind.config_class(**chosen)
    how = dict(data=options.data, device=options.device, world=world, sharded=options.shard)
    state = start(task, config, out, anew=not resume, accumulate=options.accumulate, **how)
    world.wait()  # all have read
    return state, not resume


def _refuse_kept(out: Path) -> None:
    """Refuse to begin where there is a training, or what one without a checkpoint has left."""
    if run_folder.find_checkpoint(out):
        raise ValueError(f"{out} keeps a training; --resume goes on from it, --force starts anew")
    if kept_weights(out) or (out / run_folder.LOG).exists():
        raise ValueError(f"{out} holds what a training has left; --force replaces it")


def evaluate_command(options: argparse.Namespace) -> int:
    """Measure, print what was found, and record it if asked to."""
    task = TASKS[options.task]
    pipeline, content = _kept(options)
    names = [name.strip("-") for name in task.evaluating]
    about = content["config"] | {name: getattr(options, name) for name in names}
    if options.record:
        _refuse_other_record(options.record, about.keys())  # before the work, not after it
    found = task.evaluate(pipeline, options)
    if options.record:
        entry = {
            **about,
            "history": content["history"],
            **found,
            "steps": content["step"],
            "parameters": sum(p.numel() for p in pipeline.model.parameters()),
            "minutes": {name: seconds / 60 for name, seconds in content["seconds"].items()},
            "machine": content["machine"],
        }
        add_entry(options.record, entry, lambda entry: [entry[name] for name in about])
    return 0


def _refuse_other_record(file: Path, names: Set[str]) -> None:
    """Refuse a file that is no record, or the record of something else."""
    try:
        fits = all(names <= entry.keys() for entry in read_entries(file))
    except (ValueError, AttributeError, TypeError):
        fits = False
    if not fits:
        raise ValueError(f"{file} is no record of this task: take another file")


def write_command(options: argparse.Namespace) -> int:
    """Translate a text, or go on with one."""
    print(TASKS[options.task].write(_kept(options)[0], options))
    return 0


def _chosen(options: argparse.Namespace) -> dict[str, Any]:
    """Gather the hyperparameters asked for: those of the size, then the others."""
    size = TASKS[options.task].sizes[options.size]
    return size | _given(options) | dict(getattr(options, "set", []))


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that have an option of their own, as far as they were given."""
    names = ("seed", *TASKS[options.task].settings)
    asked = {name: getattr(options, name) for name in names}
    return {name: value for name, value in asked.items() if value is not None}


def _folder(options: argparse.Namespace) -> Path:
    """Say where a training is kept: in a folder of one's own, or beside the other ones."""
    task = TASKS[options.task]
    name = task.folder_name(task.kind.config_class(**_chosen(options)), options.size)
    return options.out or run_folder.checkpoints_folder() / name


def _kept(options: argparse.Namespace) -> tuple[Pipeline, dict[str, Any]]:
    """Load what was trained, with the mean of its last epochs if asked, and its checkpoint."""
    prepare_machine(options.threads, options.device)
    task = TASKS[options.task]
    out = _folder(options)
    given = _given(options)
    if not run_folder.find_checkpoint(out):
        words = dict(task=task.name, size=options.size) | given | dict(out=options.out)
        how = " ".join(f"--{name} {value}" for name, value in words.items() if value is not None)
        raise ValueError(f"there is nothing in {out}; run: course train {how}")
    pipeline, content = run_folder.read_kept(task.kind, out)
    for name, value in given.items():
        found = getattr(pipeline.config, name)
        if found != value:
            raise ValueError(f"{out} was trained with --{name} {found}, not {value}")
    average = getattr(options, "average", 1)
    if average > 1:
        load_average(out, average, pipeline.model)
    pipeline.model.to(options.device).eval()
    return pipeline, content


def _add_published(commands: argparse._SubParsersAction) -> None:
    """Describe what gets and uses published models, and the only command that needs a network."""
    how = dict(type=Path, metavar="FOLDER", help="of a published model (chapter 22)")
    for name in {"translate", "sample"} & commands.choices.keys():
        commands.choices[name].add_argument("--weights", **how)
    told = "get a corpus or a model once, checked"
    downloads = add_command(commands, "download", told, download_command)
    downloads.add_argument("name", choices=("multi30k", *MODELS))
    downloads.add_argument("folder", type=Path, metavar="DIR")


def download_command(options: argparse.Namespace) -> int:
    """Get what is missing, and say where it is."""
    if options.name in MODELS:
        folder = download(options.name, options.folder)
        print(f"{options.name} is in {folder}; licence: {MODELS[options.name].licence}")
    else:
        folder = download_multi30k(options.folder)
        print(f"Multi30k is in {folder}; now: course train --task multi30k --data {options.folder}")
    return 0


def published_command(options: argparse.Namespace) -> int:
    """Translate, or go on with a text, with published weights."""
    prepare_machine(options.threads, options.device)
    if options.command == "translate":
        print(translate_with(options.weights, [" ".join(options.text)])[0])
    else:
        how = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p")}
        prompt = options.prompt or ""
        print(continue_with(options.weights, prompt, options.tokens, options.draw, **how))
    return 0


def probe_command(options: argparse.Namespace) -> int:
    """Probe what a function of the user's makes; 1 when a probe fails."""
    sys.path.insert(0, os.getcwd())
    results = probe_made(options.factory, vocab_size=options.vocab_size, pad_id=options.pad_id)
    for result in results:
        print(result)
    return int(not all(result.passed for result in results))


def _add_probes(commands: argparse._SubParsersAction) -> None:
    """Describe the commands that look for mistakes in models."""
    probes = add_command(commands, "probe", "look for mistakes in a model of yours", probe_command)
    probes.add_argument("factory", metavar="MODULE:FUNCTION", help="returns it, or probe()'s dict")
    probes.add_argument("--vocab-size", type=whole_from_one, metavar="V")
    probes.add_argument("--pad-id", type=int, metavar="ID")


if __name__ == "__main__":
    sys.exit(main())
