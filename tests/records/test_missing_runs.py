"""An experiment fills its record, and continues where it stopped."""

import pytest

from course_lib.records.missing_runs import main
from course_lib.records.results import read_entries, write_entries

RUNS = [{"name": name, "seed": seed} for name in ("a", "b") for seed in (0, 1)]


def test_a_record_is_filled_and_only_missing_runs_are_repeated(tmp_path):
    file, repeated = tmp_path / "record.json", []

    def train_one(run):
        """Record which run is carried out."""
        repeated.append(run)
        return {"loss": run["seed"] + 0.5}

    main("", file, RUNS, train_one, [])
    entries = read_entries(file)
    assert entries == [run | {"loss": run["seed"] + 0.5} for run in RUNS] and repeated == RUNS
    write_entries(file, [entries[0], *entries[2:], {"name": "old"}])
    repeated.clear()
    main("", file, RUNS, train_one, [])
    assert (read_entries(file), repeated) == (entries, [RUNS[1]])


def test_an_interrupted_experiment_keeps_what_is_done_and_what_was_there(tmp_path):
    file = tmp_path / "record.json"
    before = [RUNS[3] | {"loss": 2.0}, {"name": "old"}]
    write_entries(file, before)

    def train_one(run):
        """Stop at the second run."""
        if run == RUNS[1]:
            raise KeyboardInterrupt
        return {"loss": 1.0}

    with pytest.raises(SystemExit, match="same command continues"):
        main("", file, RUNS, train_one, [])
    assert read_entries(file) == [RUNS[0] | {"loss": 1.0}, *before]
