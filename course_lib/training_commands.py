"""The commands ``train`` and ``evaluate``, and those that use what was trained."""

import argparse
import sys
from collections.abc import Callable, Set
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from course_lib.exercises.commands import add_command
from course_lib.task_commands import TASKS, Options, TaskCommands
from course_lib.trainer import run_folder
from course_lib.trainer.averaging import load_average, saved_epochs
from course_lib.trainer.distributed import World, init_distributed
from course_lib.trainer.hardware import bfloat16_pays, prepare_machine
from course_lib.trainer.loop import graceful_shutdown, start, train
from course_lib.trainer.options import TrainingConfig, whole_from_one
from course_lib.trainer.results import add_entry, read_entries
from course_lib.trainer.task import Pipeline, TrainState

STOPPED = 130  # the exit code after Ctrl-C
SHARD = "under torchrun: no process holds all weights (FSDP2); otherwise each has a copy (DDP)"
PARTS = "micro-batches of a step: less memory, the same gradients"
MOST_PARTS = 1_024
USUAL = "%(default)s unless given"


def add_training_commands(commands: argparse._SubParsersAction, name: str) -> None:
    """Describe the commands of a task; another one has other options."""
    chosen = TASKS[name]
    what = chosen.task.pipeline_class.what
    trains = add_command(commands, "train", f"train {what} ({chosen.duration})", train_command)
    setting = setting_of(chosen.task.pipeline_class.config_class)
    trains.add_argument(
        "--set",
        metavar="NAME=VALUE",
        type=setting,
        action="append",
        default=[],
        help="any hyperparameter",
    )
    trains.add_argument("--minutes", type=float, help="stop after this many minutes in total")
    trains.add_argument("--shard", action="store_true", help=SHARD)
    trains.add_argument("--accumulate", type=whole_from_one, default=1, metavar="K", help=PARTS)
    mode = trains.add_mutually_exclusive_group()
    mode.add_argument("--resume", action="store_true", help="continue the run in the folder")
    mode.add_argument("--force", action="store_true", help="replace the run in the folder")
    evaluates = add_command(commands, "evaluate", "measure what was trained", evaluate_command)
    evaluates.add_argument("--record", type=path_of, metavar="FILE", help="add the results to it")
    uses = add_command(commands, chosen.verb, f"use {what}", use_command)
    _add_options(trains, chosen, {})
    _add_options(evaluates, chosen, chosen.evaluate_options)
    _add_options(uses, chosen, chosen.use_options)


def _add_options(command: argparse.ArgumentParser, chosen: TaskCommands, own: Options) -> None:
    """Describe which training run is meant, what computes, and what else a task needs."""
    about = "what learns; each has its own options"
    command.add_argument("--task", choices=TASKS, default=chosen.task.name, help=about)
    sizes = [*chosen.task.sizes]
    command.add_argument("--size", choices=sizes, default=sizes[0], help=USUAL)
    settings: Options = {"seed": dict(type=int), **chosen.settings}
    for name, arguments in settings.items():
        command.add_argument(f"--{name}", **arguments)
    command.add_argument("--data", type=path_of, metavar="DIR", help="texts, or COURSE_DATA")
    command.add_argument("--out", type=path_of, metavar="DIR", help="a folder of your own")
    threads = chosen.threads or torch.get_num_threads()
    command.add_argument("--threads", type=int, default=threads, help=USUAL)
    devices = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu", "cuda")
    command.add_argument("--device", choices=devices, default=devices[0], help=USUAL)
    for name, arguments in own.items():
        command.add_argument(name, **arguments)


def setting_of(config_class: type[TrainingConfig]) -> Callable[[str], tuple[str, Any]]:
    """Return a function that reads NAME=VALUE into a value of the type of this field."""
    types: dict[str, type] = {field.name: type(field.default) for field in fields(config_class)}

    def setting(text: str) -> tuple[str, Any]:
        """Read one setting, or say what is wrong with it."""
        name, _, value = text.partition("=")
        if name not in types:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(types)}")
        truths = {"True": True, "False": False}
        try:
            return name, (truths.__getitem__ if types[name] is bool else types[name])(value)
        except (KeyError, ValueError):
            what = "True or False" if types[name] is bool else types[name].__name__
            raise argparse.ArgumentTypeError(f"{name} is {what}, not {value!r}") from None

    return setting


def path_of(text: str) -> Path:
    """Read the name of a file or a folder, in which ``~`` is the user's own."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a file or a folder is empty")
    return Path(text).expanduser()


def train_command(options: argparse.Namespace) -> int:
    """Train, resumably, with a progress bar and checkpoints."""
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
        state = f"{last} is as it was saved last" if last else "nothing is saved yet"
        advice = ", and --resume continues it" if last and not options.force else ""
        print(f"\nstopped at once; {state}{advice}", file=sys.stderr)
        return STOPPED


def _train(options: argparse.Namespace, out: Path, world: World) -> int:
    """Train to the end, or to the end of the step at which somebody asks to stop."""
    with run_folder.locked(out) if world.is_main else nullcontext():
        state = _begin(options, out, world)
        if options.force and world.is_main:
            run_folder.let_replace(out)
        with graceful_shutdown(patient=world.size > 1) as stop:
            done = train(state, out, minutes=options.minutes, stop=stop)
    spent = f"{state.seconds['wall'] / 60:.1f} minutes in all"
    option = "--resume in place of --force" if options.force else "--resume"
    if world.is_main and done:
        print(f"trained to step {state.step}, {spent}: {out}")
    elif world.is_main:
        print(f"stopped at step {state.step}, {spent}; continue with the same command and {option}")
    return STOPPED if stop() and not done and world.size == 1 else 0


def _begin(options: argparse.Namespace, out: Path, world: World) -> TrainState:
    """Start a training run, or continue the one in the folder."""
    checkpoint = run_folder.read_checkpoint(out) if options.resume else None
    if options.resume and checkpoint is None:
        raise ValueError(f"there is no checkpoint in {out}; train one first")
    if not (options.resume or options.force):
        _refuse_earlier_run(out)
    chosen = TASKS[options.task]
    settings = _settings(options)
    if chosen.measures_bfloat16 and "bfloat16" not in settings:
        if checkpoint:
            fast = bool(checkpoint.metadata["config"].get("bfloat16"))
        else:
            fast = options.device == "cuda" or bfloat16_pays()  # today's GPUs have it
        settings["bfloat16"] = world.any_rank(fast, options.device)  # all agree
    return start(
        chosen.task,
        chosen.task.pipeline_class.config_class(**settings),
        checkpoint,
        data=options.data,
        device=options.device,
        world=world,
        sharded=options.shard,
        accumulate=options.accumulate,
    )


def _refuse_earlier_run(out: Path) -> None:
    """Raise ValueError if there is a training run in a folder, or what is left of one."""
    if run_folder.find_checkpoint(out):
        raise ValueError(f"{out} keeps a training run; --resume continues it, --force replaces it")
    if saved_epochs(out) or any(out.glob(f"{run_folder.LAST}/*.json")):
        raise ValueError(
            f"{out} has files of an earlier training run, but no checkpoint that this version can "
            "continue; --force replaces them"
        )


def evaluate_command(options: argparse.Namespace) -> int:
    """Measure, print the results, and record them if asked to."""
    chosen = TASKS[options.task]
    pipeline, metadata = _load(options)
    names = [name.strip("-") for name in chosen.evaluate_options]
    about = metadata["config"] | {name: getattr(options, name) for name in names}
    if options.record:
        _refuse_other_record(options.record, about.keys())  # before the work, not after it
    results = chosen.evaluate(pipeline, options)
    if options.record:
        entry = {
            **about,
            "history": metadata["history"],
            **results,
            "steps": metadata["step"],
            "parameters": sum(p.numel() for p in pipeline.model.parameters()),
            "minutes": {name: seconds / 60 for name, seconds in metadata["seconds"].items()},
            "machine": metadata["machine"],
        }
        add_entry(options.record, entry, lambda entry: [entry[name] for name in about])
    return 0


def _refuse_other_record(file: Path, names: Set[str]) -> None:
    """Raise ValueError if a file is not a record, or the record of something else."""
    if not all(names <= entry.keys() for entry in read_entries(file)):
        raise ValueError(f"{file} is not a record of this task: take another file")


def use_command(options: argparse.Namespace) -> int:
    """Translate a text, or continue one."""
    pipeline, _ = _load(options)
    print(TASKS[options.task].use(pipeline, options))
    return 0


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Gather the hyperparameters asked for: those of the size, then the others."""
    size = TASKS[options.task].task.sizes[options.size]
    return size | _own_settings(options) | dict(getattr(options, "set", []))


def _own_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the hyperparameters with an option of their own that were given."""
    names = ("seed", *TASKS[options.task].settings)
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _folder(options: argparse.Namespace) -> Path:
    """Return the folder of a training run: the user's own, or one among the others."""
    task = TASKS[options.task].task
    name = task.folder_name(task.pipeline_class.config_class(**_settings(options)), options.size)
    return options.out or run_folder.checkpoints_folder() / name


def _load(options: argparse.Namespace) -> tuple[Pipeline, dict[str, Any]]:
    """Load what was trained, averaged over the last epochs if asked, and the metadata."""
    prepare_machine(options.threads, options.device)
    task = TASKS[options.task].task
    out = _folder(options)
    settings = _own_settings(options)
    if not run_folder.find_checkpoint(out):
        choices = dict(task=task.name, size=options.size) | settings | dict(out=options.out)
        words = [f"--{name} {value}" for name, value in choices.items() if value is not None]
        raise ValueError(f"there is nothing in {out}; run: course train {' '.join(words)}")
    pipeline, metadata = run_folder.load_pipeline(task.pipeline_class, out)
    for name, value in settings.items():
        trained = getattr(pipeline.config, name)
        if trained != value:
            raise ValueError(f"{out} was trained with --{name} {trained}, not {value}")
    average = getattr(options, "average", 1)
    if average > 1:
        load_average(out, average, pipeline.model)
    pipeline.model.to(options.device).eval()
    return pipeline, metadata
