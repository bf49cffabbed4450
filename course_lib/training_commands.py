"""The commands ``train`` and ``evaluate``, and those that use what was trained."""

import argparse
import math
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from course_lib.exercises.commands import add_command
from course_lib.task_commands import TASKS, Options, TaskCommands
from course_lib.trainer import run_folder
from course_lib.trainer.distributed import World, init_distributed
from course_lib.trainer.hardware import bfloat16_pays, prepare_machine
from course_lib.trainer.loop import graceful_shutdown, start, train
from course_lib.trainer.options import TrainingConfig, check_range, whole_from_one
from course_lib.trainer.results import add_entry, read_entries
from course_lib.trainer.task import Pipeline, TrainState

STOPPED = 130  # the exit code after Ctrl-C
MOST_PARTS = 1_024  # micro-batches of a step
SHARD = "under torchrun: no process holds all weights (FSDP2); otherwise each has a copy (DDP)"
PARTS = "micro-batches of a step: less memory, the same gradients"
USUAL = "%(default)s unless given"


def add_training_commands(commands: argparse._SubParsersAction, name: str) -> None:
    """Describe the commands of a task; another one has other options."""
    chosen = TASKS[name]
    what = chosen.task.pipeline_class.what
    trains = add_command(commands, "train", f"train {what} ({chosen.duration})", train_command)
    _add_options(trains, chosen, {})
    trains.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any hyperparameter"
    )
    trains.add_argument("--minutes", type=float, help="stop after this many minutes in total")
    trains.add_argument("--shard", action="store_true", help=SHARD)
    trains.add_argument("--accumulate", type=whole_from_one, default=1, metavar="K", help=PARTS)
    mode = trains.add_mutually_exclusive_group()
    mode.add_argument("--resume", action="store_true", help="continue the run in the folder")
    mode.add_argument("--force", action="store_true", help="replace the run in the folder")
    evaluates = add_command(commands, "evaluate", "measure what was trained", evaluate_command)
    _add_options(evaluates, chosen, chosen.evaluate_options)
    evaluates.add_argument("--record", type=path_of, metavar="FILE", help="add the results to it")
    uses = add_command(commands, chosen.verb, f"use {what}", use_command)
    _add_options(uses, chosen, chosen.use_options)


def _add_options(command: argparse.ArgumentParser, chosen: TaskCommands, own: Options) -> None:
    """Describe which training run is meant, what computes, and what else a task needs."""
    about = "each has its own options"
    command.add_argument("--task", choices=TASKS, default=chosen.task.name, help=about)
    sizes = [*chosen.task.sizes]
    command.add_argument("--size", choices=sizes, default=sizes[0], help=USUAL)
    command.add_argument("--seed", type=int)
    for name, arguments in chosen.settings.items():
        command.add_argument(f"--{name}", **arguments)
    command.add_argument("--data", type=path_of, metavar="DIR", help="texts, or COURSE_DATA")
    command.add_argument("--out", type=path_of, metavar="DIR", help="a folder of your own")
    threads = chosen.threads or torch.get_num_threads()
    command.add_argument("--threads", type=int, default=threads, help=USUAL)
    devices = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu", "cuda")
    command.add_argument("--device", choices=devices, default=devices[0], help=USUAL)
    for name, arguments in own.items():
        command.add_argument(name, **arguments)


def path_of(text: str) -> Path:
    """Read the name of a file or a folder, in which ``~`` is the user's own."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a file or a folder is empty")
    return Path(text).expanduser()


def train_command(options: argparse.Namespace) -> int:
    """Train to the end, or to the end of the step at which somebody asks to stop."""
    prepare_machine(options.threads, options.device)
    check_range("--accumulate", options.accumulate, 1, MOST_PARTS)
    check_range("--minutes", options.minutes or 0, 0, math.inf)
    out = _folder(options)
    with init_distributed(options.device) as world:
        with run_folder.locked(out) if world.is_main else nullcontext():
            state = _begin(options, out, world)
            if options.force and world.is_main:
                run_folder.let_replace(out)
            with graceful_shutdown(patient=world.size > 1) as stop:
                done = train(state, out, minutes=options.minutes, stop=stop)
    end = f"step {state.step}, {state.seconds['wall'] / 60:.1f} minutes in all"
    if world.is_main:
        print(f"trained to {end}: {out}" if done else f"stopped at {end}; continue with --resume")
    return STOPPED if stop() and not done and world.size == 1 else 0


def _begin(options: argparse.Namespace, out: Path, world: World) -> TrainState:
    """Start a training run, or continue the one in the folder."""
    checkpoint = run_folder.read_checkpoint(out) if options.resume else None
    if not (options.resume or options.force) and run_folder.find_checkpoint(out):
        raise ValueError(f"{out} keeps a training run; --resume continues it, --force replaces it")
    task = TASKS[options.task].task
    config_class = task.pipeline_class.config_class
    settings = _settings(options)
    if config_class.bfloat16 and "bfloat16" not in settings:
        if checkpoint:
            fast = bool(checkpoint.metadata["config"].get("bfloat16"))
        else:
            fast = options.device == "cuda" or bfloat16_pays()  # today's GPUs have it
        settings["bfloat16"] = world.any_rank(fast, options.device)  # all agree
    return start(
        task,
        config_class(**settings),
        checkpoint,
        data=options.data,
        device=options.device,
        world=world,
        sharded=options.shard,
        accumulate=options.accumulate,
    )


def evaluate_command(options: argparse.Namespace) -> int:
    """Measure, print the results, and record them if asked to."""
    chosen = TASKS[options.task]
    pipeline, metadata = _load(options)
    names = [name.strip("-") for name in chosen.evaluate_options]
    about = metadata["config"] | {name: getattr(options, name) for name in names}
    if options.record:
        for entry in read_entries(options.record):  # before the work, not after it
            if not about.keys() <= entry.keys():
                raise ValueError(f"{options.record} is the record of another task")
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


def use_command(options: argparse.Namespace) -> int:
    """Translate a text, or continue one."""
    pipeline, _ = _load(options)
    print(TASKS[options.task].use(pipeline, options))
    return 0


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Gather the hyperparameters asked for: those of the size, then the others."""
    task = TASKS[options.task].task
    texts = getattr(options, "set", [])
    others = dict(read_setting(task.pipeline_class.config_class, text) for text in texts)
    return task.sizes[options.size] | _own_settings(options) | others


def read_setting(config_class: type[TrainingConfig], text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; raise ValueError if there is no such field, or it has another type."""
    name, _, value = text.partition("=")
    types: dict[str, type] = {field.name: type(field.default) for field in fields(config_class)}
    if name not in types:
        raise ValueError(f"--set {text}: {name!r} is none of {', '.join(types)}")
    truths = {"True": True, "False": False}
    try:
        return name, truths[value] if types[name] is bool else types[name](value)
    except (KeyError, ValueError):
        raise ValueError(f"--set {text}: {name} must be of type {types[name].__name__}") from None


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
    pipeline, metadata = run_folder.load_pipeline(task.pipeline_class, out)
    for name, value in _own_settings(options).items():
        trained = getattr(pipeline.config, name)
        if trained != value:
            raise ValueError(f"{out} was trained with --{name} {trained}, not {value}")
    average = getattr(options, "average", 1)
    if average > 1:
        run_folder.load_average(out, average, pipeline.model)
    pipeline.model.to(options.device).eval()
    return pipeline, metadata
