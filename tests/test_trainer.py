"""What all long trainings share: settings, clocks, stops and records, each by itself."""

import argparse
import json
import math
import os
import signal
import time
from dataclasses import dataclass, fields, replace

import pytest
import torch
from reference import says

from course_lib.atomic_write import write_whole
from course_lib.tasks.language_model import TextGeneratorConfig
from course_lib.tasks.multi30k import RealConfig
from course_lib.tasks.translator import TranslatorConfig
from course_lib.trainer.machine import Stopwatch, prepare_machine
from course_lib.trainer.options import (
    check_above_zero,
    check_between,
    check_from_one,
    refuse_another,
    setting_of,
    whole_from_one,
)
from course_lib.trainer.results import (
    add_entry,
    note_minutes,
    read_entries,
    write_log,
)
from course_lib.trainer.signals import graceful_shutdown


@dataclass(frozen=True)
class Numbers:
    """Stand in for a configuration."""

    name: str = "sea"
    steps: int = 5
    rate: float = 0.5
    bias: bool = False


# --- settings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name=a=b", "a=b"),
        ("steps=12", 12),
        ("rate=2", 2.0),
        ("bias=False", False),
    ],
)
def test_a_setting_has_the_type_of_its_field(text, expected):
    name, value = setting_of(Numbers)(text)
    assert (name, value, type(value)) == (text.split("=")[0], expected, type(expected))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("depth=3", "'depth' is none of name, steps, rate, bias"),
        ("steps=1.5", "steps is int, not '1.5'"),
        ("bias=1", "bias is True or False, not '1'"),
    ],
)
def test_a_wrong_setting_is_explained(text, part):
    with pytest.raises(argparse.ArgumentTypeError, match=part):
        setting_of(Numbers)(text)


@pytest.mark.parametrize("wrong", ["0", "many", "²"])
def test_a_whole_number_begins_at_one(wrong):
    assert whole_from_one("1") == 1 and whole_from_one("020") == 20
    with pytest.raises(argparse.ArgumentTypeError, match=says(wrong, "whole number from 1")):
        whole_from_one(wrong)


@pytest.mark.parametrize("value", [0, 1.0, True])
def test_a_count_is_a_whole_number_from_one(value):
    check_from_one(Numbers(), "steps")
    with pytest.raises(ValueError, match=says(f"steps={value!r}", "from 1")):
        check_from_one(Numbers(steps=value), "steps")


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_what_must_be_above_zero_is_a_number_too(value):
    check_above_zero(Numbers(), "rate", "steps")
    with pytest.raises(ValueError, match=says(f"rate={value}", "above 0")):
        check_above_zero(Numbers(rate=value), "steps", "rate")


@pytest.mark.parametrize("value", [-1e-9, 1 + 1e-9, math.nan])
def test_a_fraction_is_from_nothing_to_all(value):
    for fine in (0, 0.5, 1, 1.0):
        check_between(Numbers(rate=fine), 0, 1, "rate")
    with pytest.raises(ValueError, match=says(f"rate={value}", "[0, 1]")):
        check_between(Numbers(rate=value), 0, 1, "rate")


@pytest.mark.parametrize("config", [TranslatorConfig(), RealConfig(), TextGeneratorConfig()])
def test_every_number_of_a_configuration_is_checked_and_named(config):
    for field in fields(config):
        any_seed = not isinstance(config, TextGeneratorConfig)  # it is one of Python's numbers
        if field.type in (bool, str) or (field.name == "seed" and any_seed):
            continue
        for value in (-1.0, math.nan) if field.type is float else (-1,):
            with pytest.raises(ValueError, match=says(field.name, value)):
                replace(config, **{field.name: value})


def test_another_configuration_is_refused_by_what_is_different(tmp_path):
    refuse_another(tmp_path, Numbers(), Numbers())
    with pytest.raises(ValueError) as caught:
        refuse_another(tmp_path, Numbers(rate=1.0, name="a"), Numbers(name="b", rate=1.0, steps=6))
    assert f"{tmp_path} keeps a training with name='a', not 'b'; steps=5, not 6: " in str(
        caught.value
    )


# --- the machine


def test_a_watch_adds_both_clocks_to_what_was_spent_before():
    seconds = {"wall": 100.0, "cpu": 50.0}
    watch = Stopwatch(seconds)
    time.sleep(0.02)
    watch.look()
    slept = seconds["wall"]
    assert 100.02 <= slept < 101 and 50 <= seconds["cpu"] < 50.015  # sleeping is no work
    begin = time.process_time()
    while time.process_time() - begin < 0.02:
        pass
    watch.look()
    assert seconds["wall"] >= slept + 0.015 and seconds["cpu"] >= 50.02


def test_what_a_computer_has_not_got_is_refused(monkeypatch):
    taken = []
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    prepare_machine(argparse.Namespace(threads=3, device="cpu"))
    for wrong in (0, 10**9):
        with pytest.raises(ValueError, match=f"--threads {wrong} is not from 1"):
            prepare_machine(argparse.Namespace(threads=wrong, device="cpu"))
    with pytest.raises(ValueError, match="there is no CUDA device here"):
        prepare_machine(argparse.Namespace(threads=2, device="cuda"))
    assert taken == [3]


# --- stops


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_a_second_one_stops_and_then_all_is_as_before(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), graceful_shutdown() as stop:
        assert signal.getsignal(number) != before and not stop()
        signal.raise_signal(number)
        assert stop()
        signal.raise_signal(number)
    assert signal.getsignal(number) == before


# --- records


def by_name(entry):
    """Tell entries apart by a name."""
    return [entry["name"]]


def test_an_entry_takes_the_place_of_its_own_kind_in_order(tmp_path):
    path = tmp_path / "some" / "where.json"
    assert read_entries(path) == []
    for name, loss in (("b", 1.5), ("a", 2.5), ("b", 3.5)):
        add_entry(path, {"name": name, "loss": loss, "text": "zwölf\n"}, by_name)
    assert [(e["name"], e["loss"]) for e in read_entries(path)] == [("a", 2.5), ("b", 3.5)]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [lines[0], lines[-1], len(lines)] == ["[", "]", 4]  # a line for each: diffs are short
    assert "zwölf" in lines[1] and json.loads(path.read_text(encoding="utf-8"))


def test_a_record_holds_finite_numbers_only(tmp_path):
    add_entry(tmp_path / "r.json", {"name": "a"}, by_name)
    with pytest.raises(ValueError, match="JSON"):
        add_entry(tmp_path / "r.json", {"name": "b", "loss": math.nan}, by_name)
    assert read_entries(tmp_path / "r.json") == [{"name": "a"}]


def test_a_failure_while_writing_leaves_the_old_text_and_nothing_beside(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    write_whole(path, "old")

    def refuse(*paths):
        raise PermissionError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        write_whole(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["r.json"]


def test_minutes_are_noted_once_on_the_last_line():
    note_minutes([], {"wall": 60.0})  # nothing to note them on
    history = [{"step": 1}, {"step": 2}]
    note_minutes(history, {"wall": 60.0, "cpu": 30.0})
    note_minutes(history, {"wall": 600.0, "cpu": 300.0})
    assert history == [{"step": 1}, {"step": 2, "wall_minutes": 1.0, "cpu_minutes": 0.5}]


def test_a_log_is_written_anew_with_the_configuration_on_top(tmp_path):
    for history in ([{"step": 250, "loss": 2.0}], [{"step": 250, "loss": 2.0}, {"step": 500}]):
        write_log(tmp_path / "log.txt", Numbers(), history)
    lines = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [f"# {Numbers()}", "step=250 loss=2", "step=500"]
