"""What all trainings share: settings, stops, hardware, records, a world of processes."""

import argparse
import json
import math
import os
import signal
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace

import pytest
import torch
from parity import Pretended, says
from tiny_tasks import REAL, settings

from course_lib import cli
from course_lib.atomic_write import write_whole
from course_lib.cli import main
from course_lib.tasks.language_model import TextGeneratorConfig
from course_lib.tasks.multi30k import RealConfig
from course_lib.tasks.numbers import TranslatorConfig
from course_lib.trainer import distributed
from course_lib.trainer.distributed import World, init_distributed
from course_lib.trainer.hardware import prepare_machine
from course_lib.trainer.loop import graceful_shutdown
from course_lib.trainer.options import refuse_another, setting_of, whole_from_one
from course_lib.trainer.results import add_entry, read_entries

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SMOKE = ["train", "--task", "multi30k", "--size", "smoke", "--threads", "1"]
SMOKE += settings(REAL)


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
    [("name=a=b", "a=b"), ("steps=12", 12), ("rate=2", 2.0), ("bias=False", False)],
)
def test_a_setting_has_the_type_of_its_field(text, expected):
    name, value = setting_of(Numbers)(text)
    assert (name, value, type(value)) == (text.split("=")[0], expected, type(expected))


@pytest.mark.parametrize(
    ("read", "text", "part"),
    [
        (setting_of(Numbers), "depth=3", "'depth' is none of name, steps, rate, bias"),
        (setting_of(Numbers), "steps=1.5", "steps is int, not '1.5'"),
        (setting_of(Numbers), "bias=1", "bias is True or False, not '1'"),
        (whole_from_one, "0", "'0' is not a whole number from 1"),
        (whole_from_one, "²", "'²' is not a whole number from 1"),
    ],
)
def test_a_wrong_setting_is_explained(read, text, part):
    assert whole_from_one("020") == 20
    with pytest.raises(argparse.ArgumentTypeError, match=part):
        read(text)


@pytest.mark.parametrize("config", [TranslatorConfig(), RealConfig(), TextGeneratorConfig()])
def test_every_number_of_a_configuration_is_checked_and_named(config):
    wrong = {float: (-1.0, math.nan, math.inf), int: (-1, 1.5)}
    for field in fields(config):
        any_seed = not isinstance(config, TextGeneratorConfig)  # it is one of Python's numbers
        if field.type in (bool, str) or (field.name == "seed" and any_seed):
            continue
        for value in wrong[field.type]:
            if (field.name, value) in (("seed", 1.5), ("num_pairs", 1.5)):
                continue
            with pytest.raises(ValueError, match=says(field.name, value)):
                replace(config, **{field.name: value})


def test_another_configuration_is_refused_by_what_is_different(tmp_path):
    refuse_another(tmp_path, Numbers(), Numbers())
    with pytest.raises(ValueError) as caught:
        refuse_another(tmp_path, Numbers(rate=1.0, name="a"), Numbers(name="b", rate=1.0, steps=6))
    told = f"{tmp_path} keeps a training with name='a', not 'b'; steps=5, not 6: "
    assert told in str(caught.value)


# --- the hardware


def test_what_a_computer_has_not_got_is_refused(monkeypatch):
    taken = []
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    prepare_machine(3, "cpu")
    for wrong in (0, 10**9):
        with pytest.raises(ValueError, match=f"--threads {wrong} is not from 1"):
            prepare_machine(wrong, "cpu")
    with pytest.raises(ValueError, match="there is no CUDA device here"):
        prepare_machine(2, "cuda")
    assert taken == [3]


# --- stops


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_asks_a_second_one_stops_the_impatient_and_then_all_is_as_before(number, patient):
    before = [signal.getsignal(n) for n in SIGNALS]
    obeyed = 0
    try:
        with graceful_shutdown(patient=patient) as stop:
            assert signal.getsignal(number) not in before and not stop()
            for n in (number, *SIGNALS):
                signal.raise_signal(n)
                obeyed += stop()
    except KeyboardInterrupt:
        assert obeyed == 1
    assert obeyed == (3 if patient else 1)
    assert [signal.getsignal(n) for n in SIGNALS] == before


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
    with pytest.raises(ValueError, match="JSON"):
        add_entry(path, {"name": "c", "loss": math.nan}, by_name)
    assert len(read_entries(path)) == 2


def test_a_failure_while_writing_leaves_the_old_text_and_nothing_beside(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    write_whole(path, "old")

    def refuse(*paths):
        raise PermissionError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        write_whole(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["r.json"]


# --- who is there


def test_one_process_leads_waits_for_nobody_and_is_its_own_sum():
    world, numbers = World(), torch.tensor([1.0, 2.0])
    world.wait()
    found = world.total(numbers)
    found += 1
    assert numbers.tolist() == [1, 2] and found.tolist() == [2, 3]
    assert world.any_rank(True) is True and world.any_rank(False) is False
    assert world.is_main and World(0, 2).is_main and not World(1, 2).is_main


def test_restarts_that_look_for_the_dead_are_refused_before_anything_begins(monkeypatch):
    begun = []
    monkeypatch.setattr(distributed.dist, "init_process_group", begun.append)
    for name, value in (("RUN_ID", "some"), ("MAX_RESTARTS", "1"), ("USE_AGENT_STORE", "True")):
        monkeypatch.setenv(f"TORCHELASTIC_{name}", value)
    told = "--max-restarts=1.*TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
    with pytest.raises(ValueError, match=told), init_distributed():
        pass
    assert not begun


# --- a training that is started anew


def test_who_was_started_anew_goes_on_without_being_told(tmp_path, monkeypatch, capsys):
    words = [*SMOKE, "--out", str(tmp_path / "run"), "--minutes", "0"]
    assert main(words) == 0
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert main(words) == 2  # a first start is no restart
    for step in (2, 3):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(step - 1))
        assert main([*words, *["--force"][: step - 2]]) == 0  # nor does it begin for ever
        assert f"stopped at step {step}," in capsys.readouterr().out
    monkeypatch.setattr("os.getppid", lambda: -1)  # as if torchrun had another job
    assert main(words) == 2 and "keeps a training" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0 and "step 1," in capsys.readouterr().out


# --- stops


@pytest.mark.parametrize("rank, size", [(0, 2), (1, 2)])
def test_several_are_told_twice_to_stop_and_one_of_them_says_so(
    rank, size, monkeypatch, tmp_path, capsys
):
    run, world = SimpleNamespace(step=3, seconds={"wall": 0.0}), Pretended(rank, size)

    def learn(*words, stop, **how):
        """Be asked to stop twice, as by a terminal and by torchrun, and then stop."""
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert stop()
        return False

    monkeypatch.setattr(cli, "init_distributed", lambda device: nullcontext(world))
    monkeypatch.setattr(cli, "_begin", lambda *words: (run, False))
    monkeypatch.setattr(cli, "train", learn)
    assert main([*SMOKE, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("stopped at step 3,") if rank == 0 else said == ""


def test_several_processes_need_torchrun_and_a_gpu_each(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path))
    assert main(["train", "--steps", "1"]) == 2
    assert "WORLD_SIZE=3, but without torchrun" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="2 GPUs"), init_distributed("cuda"):
        pass
