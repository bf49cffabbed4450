"""``course train``, whatever is trained: begin or go on, stop when asked to, and say so."""

import argparse
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from course_lib.tasks.numbers import FOLDER
from course_lib.trainer.distributed import World, init_distributed, is_restarted, job
from course_lib.trainer.loop import start, train, whole_pipeline
from course_lib.trainer.machine import add_machine_options, prepare_machine
from course_lib.trainer.options import setting_of
from course_lib.trainer.run_folder import LAST, is_kept, locked, read_kept, remove_kept
from course_lib.trainer.sharded_checkpoint import find_sharded
from course_lib.trainer.signals import STOPPED, graceful_shutdown, stopped_at_once
from course_lib.trainer.task import Pipeline, Task, TrainState

CLOCK = "cpu: processor time divided by threads, fair on a shared machine"
SHARD = "under torchrun: no process holds all weights (FSDP2); else each has a copy (DDP)"
ConfigOf = Callable[[argparse.Namespace, World, Any], Any]  # the last: what is gone on with
Report = Callable[[TrainState, Pipeline], None]


def add_training_options(trains: argparse.ArgumentParser, kind: type) -> None:
    """Describe how a training is changed, limited, shared out, gone on with or begun anew.

    Args:
        trains: The command.
        kind: The configuration, a dataclass whose fields all have defaults.
    """
    setting = setting_of(kind)
    trains.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE")
    trains.add_argument("--minutes", type=float, help="stop, to be resumed, after so many in all")
    trains.add_argument("--clock", choices=("wall", "cpu"), default="wall", help=CLOCK)
    trains.add_argument("--shard", action="store_true", help=SHARD)
    add_machine_options(trains)
    kept = trains.add_mutually_exclusive_group()
    kept.add_argument("--resume", action="store_true", help="go on from what is kept")
    kept.add_argument("--force", action="store_true", help="replace what is kept")


def run_training(
    options: argparse.Namespace, task: type[Task], config_of: ConfigOf, out: Path, report: Report
) -> int:
    """Train, resumably, with a progress bar, checkpoints and a log.

    Args:
        options: Those of ``add_training_options``, and ``data``.
        task: What is trained.
        config_of: Puts together with which numbers.
        out: The folder of the training.
        report: Called after the last step, with the whole pipeline, by the main process.

    Returns:
        The exit code.

    Raises:
        ValueError: If something is kept and neither to be gone on with nor to be replaced, or as
            ``start`` and ``train``.
    """
    try:
        return _run(options, task, config_of, out, report)
    except KeyboardInterrupt:  # before the first step, or for the second time
        return stopped_at_once(find_sharded(out) or out / LAST)


def _run(
    options: argparse.Namespace, task: type[Task], config_of: ConfigOf, out: Path, report: Report
) -> int:
    """Train to the end, or to the end of the step at which somebody asks to stop."""
    prepare_machine(options)
    if options.minutes is not None and not options.minutes >= 0:
        raise ValueError(f"--minutes {options.minutes}: a number from 0 is needed")
    with init_distributed(options.device) as world:
        state, anew = _begin(options, task, config_of, out, world)
        lock = locked(out) if world.is_main else nullcontext()
        with lock, graceful_shutdown(patient=world.size > 1) as stop:
            if world.is_main and anew:  # only now: what can be wrong was found before
                remove_kept(out)
            world.wait()
            limit = dict(minutes=options.minutes, clock=options.clock)
            done = train(state, out, stop=stop, **limit)
        whole = whole_pipeline(state) if done else None
        if world.is_main:
            _tell(state, done, out)
        if whole:
            report(state, whole)
    return STOPPED if stop() and not done and world.size == 1 else 0


def _begin(
    options: argparse.Namespace, task: type[Task], config_of: ConfigOf, out: Path, world: World
) -> tuple[TrainState, bool]:
    """Start or go on; return the training, and whether it begins anew."""
    asked = options.resume or (is_restarted() and is_kept(out))
    kept, content = read_kept(task.kind, out) if asked else (None, {})
    resume = options.resume or content.get("job") == job()
    if is_kept(out) and not (resume or options.force):
        raise ValueError(f"{out} keeps a training; --resume goes on from it, --force starts anew")
    config = config_of(options, world, kept.config if resume else None)
    how = dict(data=options.data, device=options.device, world=world, sharded=options.shard)
    state = start(task, config, out, anew=not resume, **how)
    world.wait()  # all have read
    return state, not resume


def _tell(state: TrainState, done: bool, out: Path) -> None:
    """Say how it ended."""
    spent = f"{state.seconds['wall'] / 60:.1f} minutes in all"
    if done:
        print(f"trained to step {state.step}, {spent}: {out}")
    else:
        print(f"stopped at step {state.step}, {spent}; go on with the same command and --resume")


def folder_of(options: argparse.Namespace, name: str) -> Path:
    """Say where a training is kept: in a folder of one's own, or beside the other checkpoints."""
    return options.out or Path(os.environ.get("COURSE_CHECKPOINTS") or FOLDER) / name
