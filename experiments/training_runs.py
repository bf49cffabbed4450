"""Fill the record of an experiment: train every run that the record lacks."""

import argparse
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from course_lib.tasks.language_model import LanguageModel
from course_lib.trainer.hardware import describe_machine
from course_lib.trainer.loop import fit
from course_lib.trainer.results import Entry, read_entries, write_entries
from course_lib.trainer.task import TrainState

SEEDS = (0, 1, 2)
STOPPED = 130  # the exit code after Ctrl-C
REJECTED = 2  # the exit code if an option or a record cannot be used


def main(
    description: str | None,
    record: Path,
    runs: Sequence[Entry],
    train_one: Callable[[Entry], Entry],
    arguments: Sequence[str] | None = None,
) -> int:
    """Read the options of an experiment, fill its record, and return the exit code.

    Args:
        description: What ``--help`` says.
        record: The course's own record.
        runs: What identifies each run; an entry of the record contains all of it.
        train_one: Trains one run, and returns what is recorded about it.
        arguments: The options, if they are not those of the command line.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--file", type=Path, default=record, help="write a record of your own")
    file = parser.parse_args(arguments).file
    torch.set_num_threads(1)
    print(f"The record is {file}", flush=True)
    try:
        fill_record(file, runs, train_one)
    except KeyboardInterrupt:
        print("\nStopped. The same command continues with the missing runs.", file=sys.stderr)
        return STOPPED
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return REJECTED
    return 0


def fill_record(file: Path, runs: Sequence[Entry], train_one: Callable[[Entry], Entry]) -> None:
    """Train what the record lacks, and write each run as soon as it is done.

    An entry that belongs to no run, because the experiment has changed, is removed.
    """
    entries = entries_of(file, runs)
    for number, run in enumerate(runs):
        if entries[number] is None:
            entries[number] = run | train_one(run)
            write_entries(file, [entry for entry in entries if entry is not None])
            print(f"{number + 1} of {len(runs)}:", *run.values(), flush=True)
    print(f"The record has all {len(runs)} runs.")


def entries_of(file: Path, runs: Sequence[Entry]) -> list[Entry | None]:
    """Return the entry of each run, or ``None`` if the record lacks it.

    Raises:
        ValueError: If the file is not a record of this experiment.
    """
    if not file.parent.is_dir():
        raise ValueError(f"The folder {file.parent} does not exist.")
    entries = read_entries(file)
    matches = [[entry for entry in entries if run.items() <= entry.items()] for run in runs]
    if entries and not any(matches):
        raise ValueError(f"{file} is the record of another experiment. Choose another file.")
    return [each[0] if each else None for each in matches]


def fit_language_model(
    task: LanguageModel, build: Callable[[int], nn.Module]
) -> tuple[TrainState, Entry]:
    """Train a new model, built for the number of characters, and describe the run."""
    torch.manual_seed(task.pipeline.config.seed)
    model = build(len(task.text.characters))
    state = fit(task, model)
    return state, {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "minutes": {clock: seconds / 60 for clock, seconds in state.seconds.items()},
        "machine": describe_machine("cpu"),
        "python": platform.python_version(),
    }
