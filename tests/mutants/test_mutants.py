"""Known mistakes are planted in a model, and the record says what the probes see of them."""

from functools import partial
from statistics import fmean

import difference_effects
import digit_reversal
import mutant_tables
import mutants
import pytest
import torch

from course_lib import masks, transformer
from course_lib.records import missing_runs
from course_lib.records.results import read_entries, write_entries

SOME_MISTAKES = (None, "causal_sees_next", "causal_device_ignored", "padding_on_queries")


def mistake(name):
    return next(each for each in mutants.mutants() if each.name == name)


@pytest.fixture
def short(monkeypatch):
    """Train for eight steps with one seed."""
    reversal = partial(digit_reversal.ReversalConfig, steps=8)
    monkeypatch.setattr(difference_effects, "ReversalConfig", reversal)
    monkeypatch.setattr(mutants, "ReversalConfig", reversal)
    monkeypatch.setattr(mutants, "SEEDS", (0,))
    monkeypatch.setattr(mutants, "alarms", lambda *_, **__: ["causality"])


@pytest.mark.parametrize(
    ("runs", "train_one"),
    [
        ([mutants.identity(name and mistake(name)) for name in SOME_MISTAKES], mutants.train_one),
        (difference_effects.RUNS[:: len(mutants.SEEDS)], difference_effects.train_one),
    ],
    ids=["mutants", "difference_effects"],
)
def test_each_run_has_its_own_result(runs, train_one, short):
    results = [train_one(run) for run in runs]
    assert all(results.count(result) == 1 for result in results)


@pytest.mark.parametrize(
    ("record", "runs"),
    [
        (mutants.RECORD, mutants.runs()),
        (difference_effects.RECORD, difference_effects.RUNS),
    ],
    ids=["mutants", "difference_effects"],
)
def test_the_record_has_every_run(record, runs):
    assert missing_runs.entries_of(record, runs) == read_entries(record)


def test_a_mistake_is_planted_wherever_the_name_is_used_and_removed_again():
    right = masks.causal_mask
    with pytest.raises(ZeroDivisionError), mutants.planted(mistake("causal_sees_next")):
        assert transformer.causal_mask(2).all() and masks.causal_mask is transformer.causal_mask
        raise ZeroDivisionError
    assert masks.causal_mask is transformer.causal_mask is right


def test_digits_are_reversed():
    src, tgt = digit_reversal.reversals(50, torch.Generator().manual_seed(0))
    for source, target in zip(src, tgt, strict=True):
        digits = source[source != digit_reversal.PAD]
        wanted = [*digits.flip(0).tolist(), digit_reversal.EOS]
        assert target[1 : len(digits) + 2].tolist() == wanted


def test_the_record_is_made_with_todays_probes():
    run = mutants.identity(mistake("one_norm"))
    (entry,) = filter(None, missing_runs.entries_of(mutants.RECORD, [run]))
    assert entry | mutants.seen(mistake("one_norm")) == entry
    sources = {entry["probes_source"] for entry in read_entries(mutants.RECORD)}
    assert sources == {mutants.probes_checksum()}, "run: make sync"


def test_changed_probes_run_again_and_the_training_runs_stay(monkeypatch, tmp_path):
    before = read_entries(mutants.RECORD)[70:73]
    write_entries(tmp_path / "record.json", before)
    monkeypatch.setattr(mutants, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(mutants, "probes_checksum", lambda: 0)
    monkeypatch.setattr(mutants, "alarms", lambda *_, **__: ["a new probe"])
    mutants.probe_again()
    after = read_entries(mutants.RECORD)
    assert [entry["runs"] for entry in after] == [entry["runs"] for entry in before]
    assert any(entry["probes"] == ["a new probe"] for entry in after)


def test_most_mistakes_in_complete_models_are_caught_and_errors_are_recorded():
    seen = [bool(entry["probes"]) for _, entry in mutant_tables.assembled()]
    assert fmean(seen) >= 0.75
    assert mutants.scores_of(mistake("padding_on_queries"), 0)["outcome"] == "ValueError"
