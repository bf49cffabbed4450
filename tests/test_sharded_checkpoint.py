"""A world, its sharded checkpoints and its parts of a batch: what one process can show."""

import shutil
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from parity import Pretended
from torch.distributed import checkpoint

from course_lib import cli
from course_lib.cli import main
from course_lib.trainer import distributed, sharded_checkpoint
from course_lib.trainer.distributed import (
    World,
    init_distributed,
)
from course_lib.trainer.run_folder import LAST
from course_lib.trainer.sharded_checkpoint import (
    FACTS,
    find_sharded,
    read_facts,
    remove_sharded,
    save_sharded,
)

EXACT = dict(rtol=0, atol=1e-12)  # float64
SETTINGS = "epochs=2 num_pairs=40 tokens=300 d_model=16 d_ff=24 num_layers=1 vocab_size=90"
SMOKE = ["train", "--task", "multi30k", "--size", "smoke", "--threads", "1"]
SMOKE += [word for setting in SETTINGS.split() for word in ("--set", setting)]


# --- who is there


def test_one_process_leads_waits_for_nobody_and_is_its_own_sum():
    world, numbers = World(), torch.tensor([1.0, 2.0])
    world.wait()
    found = world.total(numbers)
    found += 1
    assert numbers.tolist() == [1, 2] and found.tolist() == [2, 3]
    assert world.any_rank(True) is True and world.any_rank(False) is False
    assert world.is_main and World(0, 2).is_main and not World(1, 2).is_main


@pytest.fixture
def launched(monkeypatch):
    """Pretend that torchrun started this process; return what is asked of ``dist``."""
    asked = []
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "some")
    for name in ("TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)
    answers = dict(init_process_group=None, get_rank=1, get_world_size=2)
    for name, answer in (answers | dict(destroy_process_group=None)).items():
        answers[name] = answer
        monkeypatch.setattr(
            distributed.dist, name, lambda *words, name=name: asked.append(name) or answers[name]
        )
    return asked


def test_restarts_that_look_for_the_dead_are_refused_before_anything_begins(launched, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "1")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with pytest.raises(ValueError, match="--max-restarts=1.*TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"):
        with init_distributed():
            pass
    assert launched == []


def test_a_world_comes_together_and_parts_whatever_happens(launched, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "1")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "False")
    with pytest.raises(OSError), init_distributed() as world:
        assert world == World(1, 2) and launched[0] == "init_process_group"
        assert "destroy_process_group" not in launched
        raise OSError
    assert launched[-1] == "destroy_process_group"


# --- shards


@pytest.fixture
def learner():
    """Return a model after a step, and its optimizer."""
    model = torch.nn.Linear(2, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_until_the_new_checkpoint_is_whole_the_old_one_is_kept(learner, tmp_path, monkeypatch):
    save_sharded(tmp_path, 1, {}, *learner, World())
    save, seen = checkpoint.save, []

    def watch(*words, checkpoint_id, **how):
        """Look at what is there before and after the shards are written."""
        for _ in range(2):
            seen.append((find_sharded(tmp_path).name, (checkpoint_id / FACTS).exists()))
            save(*words, checkpoint_id=checkpoint_id, **how)

    monkeypatch.setattr(checkpoint, "save", watch)
    save_sharded(tmp_path, 2, {}, *learner, World())
    assert seen == [("last-0000001", False)] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["last-0000002"]


def test_the_newest_is_found_and_all_but_one_can_be_removed(tmp_path, monkeypatch):
    for step in (10, 9, 200):
        folder = tmp_path / f"last-{step:07d}"
        folder.mkdir()
        (folder / FACTS).write_text("{}")
    for name in ("last-week", "last-0000009-copy"):  # somebody else's
        (tmp_path / name).mkdir()
        (tmp_path / name / FACTS).write_text("{}")
    (tmp_path / "last-0000300").mkdir()  # half of one
    (tmp_path / LAST).touch()
    assert find_sharded(tmp_path).name == "last-0000200"
    remove, gone = shutil.rmtree, []

    def watch(folder):
        """Notice whether it is half a checkpoint already, before any shard of it is gone."""
        gone.append((folder.name, (folder / FACTS).exists()))
        remove(folder)

    monkeypatch.setattr(sharded_checkpoint.shutil, "rmtree", watch)
    remove_sharded(tmp_path, but=tmp_path / "last-0000010")
    names = ("last-0000009", "last-0000200", "last-0000300")
    assert sorted(gone) == [(name, False) for name in names]
    others = {"last-week", "last-0000009-copy", LAST}
    assert {path.name for path in tmp_path.iterdir()} == {"last-0000010", *others}
    remove_sharded(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == others and find_sharded(tmp_path) is None


@pytest.mark.parametrize("text", ['{"format": "cour', "[]", '{"format": "course_lib pieces 1"}'])
def test_facts_that_are_cut_off_or_foreign_are_explained_in_a_sentence(text, tmp_path):
    (tmp_path / FACTS).write_text(text)
    with pytest.raises(ValueError) as caught:
        read_facts(tmp_path)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
    assert "is cut off" in str(caught.value) or "is missing" in str(caught.value)


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
