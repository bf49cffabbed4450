"""Mutants: a mistake is planted and taken out, trained once, and the records are up to date."""

from dataclasses import replace

import mutant_tables
import mutants as mutants_module
import pytest
import torch
from mutants import (
    EOS,
    PAD,
    RECORD,
    ReversalConfig,
    find,
    mutants,
    planted,
    record,
    reversals,
    seen_entry,
    train_one,
)

from course_lib import masks, transformer
from course_lib.exercises import known_mistakes
from course_lib.trainer.results import read_entries


def mistake(exercise, name):
    """Find a known mistake."""
    return next(each for each in known_mistakes(exercise) if each.name == name)


def test_a_mistake_is_planted_wherever_the_name_is_used_and_taken_out():
    right = masks.causal_mask
    with pytest.raises(ZeroDivisionError), planted(mistake("causal_mask", "causal_sees_next")):
        assert transformer.causal_mask(2).all() and masks.causal_mask is transformer.causal_mask
        raise ZeroDivisionError
    assert masks.causal_mask is transformer.causal_mask is right


def test_the_task_is_to_write_backwards():
    src, tgt = reversals(50, torch.Generator().manual_seed(0))
    for source, target in zip(src, tgt, strict=True):
        digits = source[source != PAD]
        assert target[1 : len(digits) + 2].tolist() == [*digits.flip(0).tolist(), EOS]


def test_what_is_recorded_is_not_trained_again(tmp_path, monkeypatch):
    wrong = [
        mistake("causal_mask", "causal_sees_next"),
        mistake("causal_mask", "causal_device_ignored"),
        mistake("padding_mask", "padding_on_queries"),
    ]
    monkeypatch.setattr(mutants_module, "mutants", lambda: wrong)
    monkeypatch.setattr(mutants_module, "probed", lambda *_, **__: ["causality"])
    told, file = [], tmp_path / "record.json"
    record([0], 3, file, told.append)
    found = {e["mistake"]: (e["paper"], len(e["runs"])) for e in read_entries(file)}
    assert found == {
        "": ("nothing", 1),
        "causal_device_ignored": ("nothing", 0),
        "causal_sees_next": ("numbers", 1),
        "padding_on_queries": ("ValueError", 0),
    }
    record([0], 3, file, told.append)
    assert len(told) == 2
    record([1], 3, file, told.append)
    assert len(told) == 4 and [len(e["runs"]) for e in read_entries(file)] == [2, 0, 2, 0]
    wrong[0] = replace(wrong[0], edits=((".tril()", ".triu()"),))
    del wrong[2]
    record([0], 3, file, told.append)
    assert told[-1].startswith("causal_mask causal_sees_next 0") and len(told) == 5
    assert [len(e["runs"]) for e in read_entries(file)] == [2, 0, 1], "trained again, and removed"


def test_a_wrong_model_that_stops_is_recorded():
    ended = train_one(mistake("padding_mask", "padding_on_queries"), ReversalConfig(steps=2))
    assert ended == {"outcome": "ValueError"}


def test_the_record_covers_what_is_assembled_and_most_is_seen():
    for each in mutants():
        if each.module in mutant_tables.ASSEMBLED:
            assert find(RECORD, each), each
    found = mutant_tables.assembled()
    assert sum(bool(entry["probes"]) for entry in found) >= 0.75 * len(found)


def test_the_record_is_what_the_probes_say_today():
    wrong = mistake("EncoderLayer", "one_norm")
    assert find(RECORD, wrong).items() >= seen_entry(wrong).items()
