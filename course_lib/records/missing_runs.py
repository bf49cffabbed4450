"""Carry out the runs that are missing from an experiment's record."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from course_lib.records.results import Entry, read_entries, write_entries

SEEDS = (0, 1, 2)


def main(
    description: str | None,
    record: Path,
    runs: Sequence[Entry],
    train_one: Callable[[Entry], Entry],
    arguments: Sequence[str] | None = None,
) -> None:
    """Carry out the training runs that are missing, and record each one as soon as it is done.

    ``runs`` identifies each run, and ``train_one`` returns the measurements to record. Entries that
    no longer match a run are removed once all runs are there.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--file", type=Path, default=record, help="record file")
    file = parser.parse_args(arguments).file
    torch.set_num_threads(1)
    print(f"The record is {file}", flush=True)
    try:
        entries = entries_of(file, runs)
        missing = entries.count(None)
        others = [entry for entry in read_entries(file) if entry not in entries]
        for number, run in enumerate(runs):
            if entries[number] is None:
                entries[number] = run | train_one(run)
                write_entries(file, [*filter(None, entries), *others])
                print(f"{number + 1} of {len(runs)}:", *run.values(), flush=True)
        if others:
            write_entries(file, [*filter(None, entries)])
    except KeyboardInterrupt:
        sys.exit("\nStopped. The same command continues with the missing runs.")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print(f"The record has all {len(runs)} runs. This command added {missing} of them.")


def entries_of(file: Path, runs: Sequence[Entry]) -> list[Entry | None]:
    """Return the entry for each run, or ``None`` if the record lacks it.

    Raises ValueError if the file is not a record of this experiment.
    """
    if not file.parent.is_dir():
        raise ValueError(f"The folder {file.parent} does not exist.")
    entries = read_entries(file)
    matches = [[entry for entry in entries if run.items() <= entry.items()] for run in runs]
    if entries and not any(matches):
        raise ValueError(f"{file} is the record of another experiment. Choose another file.")
    return [each[0] if each else None for each in matches]
