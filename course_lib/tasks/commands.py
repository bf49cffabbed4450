"""``course train``, ``evaluate``, ``translate`` and ``sample``, whatever it is that learns."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from course_lib.tasks.language_model import LanguageModel
from course_lib.tasks.multi30k import Multi30k
from course_lib.tasks.numbers import Numbers
from course_lib.trainer.checkpoint import average_of_last, explaining
from course_lib.trainer.distributed import World, init_distributed, is_restarted, job
from course_lib.trainer.loop import start, train
from course_lib.trainer.machine import prepare_machine
from course_lib.trainer.options import setting_of, whole_from_one
from course_lib.trainer.results import add_entry
from course_lib.trainer.run_folder import (
    LAST,
    checkpoints_beside,
    is_kept,
    locked,
    read_kept,
    remove_kept,
)
from course_lib.trainer.sharded_checkpoint import find_sharded
from course_lib.trainer.task import Pipeline, Task, TrainState

TASKS: dict[str, type[Task]] = {task.name: task for task in (Numbers, Multi30k, LanguageModel)}
STOPPED = 130  # the exit code after Ctrl-C
SHARD = "under torchrun: no process holds all weights (FSDP2); else each has a copy (DDP)"
PARTS = "micro-batches of a step: less memory, the same gradients"


def add_commands(commands: argparse._SubParsersAction, task: type[Task]) -> None:
    """Describe what can be done with a task; another one has other options."""
    trains = commands.add_parser("train", help=f"train {task.kind.what} ({task.takes})")
    trains.set_defaults(run=train_command)
    setting = setting_of(task.kind.config_class)
    trains.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE")
    trains.add_argument("--minutes", type=float, help="stop, to be resumed, after so many in all")
    trains.add_argument("--shard", action="store_true", help=SHARD)
    trains.add_argument("--accumulate", type=whole_from_one, default=1, metavar="K", help=PARTS)
    kept = trains.add_mutually_exclusive_group()
    kept.add_argument("--resume", action="store_true", help="go on from what is kept")
    kept.add_argument("--force", action="store_true", help="replace what is kept")

    evaluates = commands.add_parser("evaluate", help="measure what was trained")
    evaluates.set_defaults(run=evaluate_command)
    evaluates.add_argument("--record", type=Path, metavar="FILE", help="add the results to it")

    writes = commands.add_parser(task.verb, help=f"use {task.kind.what}")
    writes.set_defaults(run=write_command)

    for command, own in {trains: {}, evaluates: task.evaluating, writes: task.writing}.items():
        _add_options(command, task, own)
        if command is not trains and task.keep_last:
            command.add_argument("--average", type=whole_from_one, help="of so many last epochs")


def _add_options(
    command: argparse.ArgumentParser, task: type[Task], own: dict[str, dict[str, Any]]
) -> None:
    """Describe which training is meant, what computes, and what else a task needs."""
    each = dict(choices=TASKS, default=task.name, help="what learns; each has its own options")
    command.add_argument("--task", **each)
    command.add_argument("--size", choices=task.sizes, default=[*task.sizes][0])
    for name, how in {"seed": dict(type=int), **task.settings}.items():
        command.add_argument(f"--{name}", **how)
    command.add_argument("--data", type=Path, metavar="DIR", help="texts, or COURSE_DATA")
    command.add_argument("--out", type=Path, metavar="DIR", help="a folder of your own")
    command.add_argument("--threads", type=int, default=task.threads or torch.get_num_threads())
    fastest = "cuda" if torch.cuda.is_available() else "cpu"
    command.add_argument("--device", choices=("cpu", "cuda"), default=fastest)
    for name, how in own.items():
        command.add_argument(name, **how)


def train_command(options: argparse.Namespace) -> int:
    """Train, resumably, with a progress bar, checkpoints and a log.

    Raises:
        ValueError: If something is kept and neither to be gone on with nor to be replaced, or as
            ``start`` and ``train``.
    """
    prepare_machine(options.threads, options.device)
    if options.minutes is not None and not options.minutes >= 0:
        raise ValueError(f"--minutes {options.minutes}: a number from 0 is needed")
    out = _folder(options)
    try:
        with init_distributed(options.device) as world:
            return _train(options, out, world)
    except KeyboardInterrupt:  # before the first step, or for the second time
        kept = "nothing is kept yet"
        if is_kept(out):
            last = find_sharded(out) or out / LAST
            kept = f"{last} is as it was kept last, and --resume goes on from it"
        print(f"\nstopped at once; {kept}", file=sys.stderr)
        return STOPPED


def _train(options: argparse.Namespace, out: Path, world: World) -> int:
    """Train to the end, or to the end of the step at which somebody asks to stop."""
    state, anew = _begin(options, out, world)
    lock = locked(out) if world.is_main else nullcontext()
    with lock, graceful_shutdown(patient=world.size > 1) as stop:
        if world.is_main and anew:  # only now: what can be wrong was found before
            remove_kept(out)
        world.wait()
        done = train(state, out, minutes=options.minutes, stop=stop)
    spent = f"{state.seconds['wall'] / 60:.1f} minutes in all"
    if world.is_main and done:
        print(f"trained to step {state.step}, {spent}: {out}")
    elif world.is_main:
        print(f"stopped at step {state.step}, {spent}; go on with the same command and --resume")
    return STOPPED if stop() and not done and world.size == 1 else 0


def _begin(options: argparse.Namespace, out: Path, world: World) -> tuple[TrainState, bool]:
    """Start or go on; return the training, and whether it begins anew."""
    task = TASKS[options.task]
    asked = options.resume or (is_restarted() and is_kept(out))
    kept, content = read_kept(task.kind, out) if asked else (None, {})
    resume = options.resume or content.get("job") == job()
    if is_kept(out) and not (resume or options.force):
        raise ValueError(f"{out} keeps a training; --resume goes on from it, --force starts anew")
    chosen = _chosen(options)
    settled = task.settled_here(chosen, kept.config if resume else None, options)
    if settled:  # measured by every process: all take what any of them found
        chosen |= {name: world.any_rank(value, options.device) for name, value in settled.items()}
    config = task.kind.config_class(**chosen)
    how = dict(data=options.data, device=options.device, world=world, sharded=options.shard)
    state = start(task, config, out, anew=not resume, accumulate=options.accumulate, **how)
    world.wait()  # all have read
    return state, not resume


@contextmanager
def graceful_shutdown(*, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C (and a plain kill) ask for a stop after the step; a second one stops at once.

    Args:
        patient: Whether a second one is the first again: both the terminal and ``torchrun`` tell
            every process.
    """
    asked = []

    def ask(number: int, frame: Any) -> None:
        """Remember the first signal; obey the second."""
        if asked and not patient:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def evaluate_command(options: argparse.Namespace) -> int:
    """Measure, print what was found, and record it if asked to."""
    task = TASKS[options.task]
    pipeline, content = _kept(options)
    found = task.evaluate(pipeline, options)
    if options.record:
        entry = {
            **task.entry(pipeline, content, options),
            **found,
            "steps": content["step"],
            "parameters": sum(p.numel() for p in pipeline.model.parameters()),
            "minutes": {name: seconds / 60 for name, seconds in content["seconds"].items()},
            "machine": content["machine"],
        }
        add_entry(options.record, entry, task.record_key)
    return 0


def write_command(options: argparse.Namespace) -> int:
    """Translate a text, or go on with one."""
    print(TASKS[options.task].write(_kept(options)[0], options))
    return 0


def _chosen(options: argparse.Namespace) -> dict[str, Any]:
    """Gather the hyperparameters asked for: those of the size, then the others."""
    task = TASKS[options.task]
    return task.sizes[options.size] | _given(options) | dict(getattr(options, "set", []))


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that have an option of their own, as far as they were given."""
    names = ("seed", *TASKS[options.task].settings)
    asked = {name: getattr(options, name) for name in names}
    return {name: value for name, value in asked.items() if value is not None}


def _folder(options: argparse.Namespace) -> Path:
    """Say where a training is kept: in a folder of one's own, or beside the other ones."""
    task = TASKS[options.task]
    name = task.folder_name(task.kind.config_class(**_chosen(options)), options.size)
    return options.out or checkpoints_beside(__file__) / name


def _kept(options: argparse.Namespace) -> tuple[Pipeline, dict[str, Any]]:
    """Load what was trained, with the mean of its last epochs if asked, and its checkpoint.

    Raises:
        ValueError: If nothing is kept there, or something else than was asked for.
    """
    prepare_machine(options.threads, options.device)
    task = TASKS[options.task]
    out = _folder(options)
    given = _given(options)
    if not is_kept(out):
        words = dict(task=task.name, size=options.size) | given | dict(out=options.out)
        how = " ".join(f"--{name} {value}" for name, value in words.items() if value is not None)
        raise ValueError(f"there is nothing in {out}; run: course train {how}")
    pipeline, content = read_kept(task.kind, out)
    for name, value in given.items():
        found = getattr(pipeline.config, name)
        if found != value:
            raise ValueError(f"{out} was trained with --{name} {found}, not {value}")
    average = getattr(options, "average", None)
    if average:
        weights = average_of_last(out, average)
        with explaining(out, pipeline.what):
            pipeline.model.load_state_dict(weights)
    pipeline.model.to(options.device).eval()
    return pipeline, content
