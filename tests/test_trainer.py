"""What all long trainings share: settings, clocks, stops and records, each by itself."""

import argparse
import json
import math
import os
import signal
import time
from dataclasses import asdict, dataclass, fields, replace
from types import SimpleNamespace

import pytest
import torch
from gpt_fixtures import SETTINGS, write_play
from reference import says

from course_lib import cli
from course_lib.atomic_write import write_whole
from course_lib.tasks import train_command
from course_lib.tasks.language_model import TextGeneratorConfig
from course_lib.tasks.multi30k import RealConfig
from course_lib.tasks.train_command import add_training_options
from course_lib.trainer import loop
from course_lib.trainer.checkpoint import load_checkpoint, save_checkpoint
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
from course_lib.trainer.run_folder import LOCK
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


def test_a_training_is_gone_on_with_or_begun_anew_but_not_both(capsys):
    parser = argparse.ArgumentParser()
    add_training_options(parser, Numbers)
    options = parser.parse_args(["--set", "steps=2", "--set", "rate=3", "--resume"])
    assert (options.set, options.resume, options.force) == (
        [("steps", 2), ("rate", 3.0)], True, False)  # fmt: skip
    assert parser.parse_args([]).set == [] and parser.parse_args(["--force"]).force
    with pytest.raises(SystemExit):
        parser.parse_args(["--resume", "--force"])
    assert "not allowed with" in capsys.readouterr().err


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


@pytest.mark.parametrize("config", [RealConfig(), TextGeneratorConfig()])
def test_every_number_of_a_configuration_is_checked_and_named(config):
    for field in fields(config):
        if field.type in (bool, str) or (field.name, type(config)) == ("seed", RealConfig):
            continue  # any seed is one of Python's random numbers
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


# --- the command, whatever it trains

REAL = "epochs=3 num_pairs=40 tokens=300 d_model=16 d_ff=24 num_layers=1 vocab_size=90".split()
TASKS = {
    "multi30k": SimpleNamespace(
        words=["--size", "smoke"],
        settings=[word for setting in REAL for word in ("--set", setting)],
        impossible="tokens=5",
        folder="multi30k-smoke-de-en-seed0",
        use=["translate", "ein"],
        kind="is no checkpoint of a translator of sentences",
        other=asdict(TextGeneratorConfig()),
    ),
    "gpt": SimpleNamespace(
        words=["--text", "shakespeare", "--device", "cpu"],
        settings=SETTINGS,
        impossible="max_len=5000",
        folder="gpt-cpu-shakespeare-seed0",
        use=["sample"],
        kind="is no checkpoint of a GPT that goes on with a text",
        other=asdict(RealConfig()),
    ),
}


@pytest.fixture(params=TASKS)
def task(request, capsys, monkeypatch, tmp_path):
    """Return a task, with what runs its commands: exit code, and what was said on out and err."""
    found = SimpleNamespace(**vars(TASKS[request.param]))
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path / "kept"))
    if request.param == "gpt":
        monkeypatch.setenv("COURSE_DATA", str(write_play(tmp_path / "data")))
    else:  # number words take the place of real sentences
        monkeypatch.delenv("COURSE_DATA", raising=False)
    found.folder = tmp_path / "kept" / found.folder

    def run(*words):
        code = cli.main([*words, "--task", request.param, "--threads", "1", *found.words])
        return code, *capsys.readouterr()

    found.run = run
    found.train = lambda *words: run("train", *found.settings, *words)
    return found


def contents(folder):
    """Read every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def interrupt(*arguments, **options):
    """Stop as by Ctrl-C."""
    raise KeyboardInterrupt


def assert_one_sentence(result, *parts):
    """Find exit code 2, nothing on out, and one line on err that holds all the parts."""
    code, out, err = result
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert all(str(part) in err for part in parts)


def test_a_training_that_is_there_is_gone_on_with_or_begun_anew(task, monkeypatch):
    assert_one_sentence(task.train("--resume"), task.folder, "train one")
    assert task.train()[0] == 0
    before = contents(task.folder)
    assert {"last.pt", "log.txt"} <= before.keys()
    assert_one_sentence(task.train(), "--resume goes on from it, --force starts anew")
    assert contents(task.folder) == before
    code, out, _ = task.train("--resume")
    assert code == 0 and out.startswith("trained to step") and str(task.folder) in out
    before = contents(task.folder)
    assert_one_sentence(task.train("--set", "dropout=0.5", "--resume"), "ask for the same")
    assert task.train("--set", task.impossible, "--force")[0] == 2
    assert contents(task.folder) == before  # the new one cannot begin
    monkeypatch.setattr(train_command, "train", interrupt)
    code, _, err = task.train("--force")
    assert code == 130 and "nothing is kept yet" in err and not contents(task.folder)


def test_a_folder_in_which_another_process_trains_is_left_alone(task):
    task.folder.mkdir(parents=True)
    (task.folder / LOCK).write_text(str(os.getppid()))
    assert_one_sentence(task.train(), f"process {os.getppid()} trains in {task.folder}")
    assert contents(task.folder).keys() == {LOCK}


def test_a_signal_ends_the_step_and_keeps_it(task, monkeypatch):
    make_step = loop.make_step

    def interrupted(run):
        make_step(run)
        if run.step == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(loop, "make_step", interrupted)
    code, out, _ = task.train()
    assert code == 130 and "stopped at step 3," in out
    assert "go on with the same command and --resume" in out
    assert load_checkpoint(task.folder / "last.pt")["step"] == 3
    assert not list(task.folder.glob("*.part"))
    assert task.train("--resume")[1].startswith("trained to step")


@pytest.mark.parametrize("place", ["start", "train"])
def test_a_stop_that_does_not_wait_says_what_is_kept(place, task, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(train_command, place, interrupt)
        code, out, err = task.train()
        assert (code, out) == (130, "") and "nothing is kept yet" in err
    task.train()
    monkeypatch.setattr(train_command, place, interrupt)
    code, out, err = task.train("--resume")
    assert (code, out) == (130, "") and "--resume goes on from it" in err


def test_a_checkpoint_of_another_kind_is_explained(task):
    for content in ({"model": {}}, {"config": 3}, {"config": task.other}):
        save_checkpoint(task.folder / "last.pt", content)
        before = contents(task.folder)
        for words in (["train", *task.settings, "--resume"], task.use, ["evaluate"]):
            assert_one_sentence(task.run(*words), task.folder / "last.pt", task.kind)
        assert contents(task.folder) == before
