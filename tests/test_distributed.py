"""Several processes train as one does, survive a kill, and go on as another number of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from course_lib.tasks.multi30k_checkpoint import LAST, kept_translator
from course_lib.trainer.averaging import average_of_last
from course_lib.trainer.sharded_checkpoint import find_sharded

WORKER = Path(__file__).parent / "distributed_worker.py"  # the command line, in float64
FRESH = {
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # or a restart may look for the dead
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5",  # seconds
}
EPOCHS = 3
SETTINGS = {
    **dict(epochs=EPOCHS, num_pairs=40, tokens=300, vocab_size=90, bfloat16=False),
    **dict(d_model=16, d_ff=24, num_layers=1, dropout=0.0),
}


def command(processes, out, *words, restarts=0):
    """Write the command that trains with so many processes; 0 is without torchrun."""
    told = ["train", "--task", "multi30k", "--size", "smoke", "--out", str(out), *words]
    told += [word for item in SETTINGS.items() for word in ("--set", "=".join(map(str, item)))]
    many = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    many += [f"--max-restarts={restarts}", "--monitor-interval=0.1"]
    return [sys.executable, *(many if processes else []), str(WORKER), *told]


def train(processes, out, *words, restarts=0, kill=None):
    """Train, and return what was printed; ``kill``, a rank and a step: that process dies then."""
    note = Path(f"{out}-note")
    order = {"COURSE_TEST_KILL": f"{kill[0]} {kill[1]} {note}"} if kill else {}
    running = subprocess.Popen(
        command(processes, out, *words, restarts=restarts),
        env={**os.environ, "OMP_NUM_THREADS": "1", **FRESH, **order},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        told, errors = running.communicate(timeout=200)
    finally:
        running.terminate()  # torchrun then ends its processes; a kill would leave them behind
    assert note.exists() == bool(kill), "who was to be killed was"
    note.unlink(missing_ok=True)
    survives = not kill or restarts > 0
    assert (running.returncode == 0) == survives, told + errors
    return told


def history(out):
    """Return the losses and scores of every epoch: not the minutes."""
    lines = kept_translator(out)[1]["history"]
    return [{k: v for k, v in line.items() if not k.endswith("minutes")} for line in lines]


def assert_same_training(one, other):
    """Compare every loss and score of every epoch, and the weights in the end."""
    first, second = history(one), history(other)
    assert len(first) == len(second) == EPOCHS
    for before, after in zip(first, second, strict=True):
        assert before == pytest.approx(after, rel=0, abs=1e-10)
    weights = average_of_last(other, 1)
    for name, value in average_of_last(one, 1).items():
        assert value.dtype == torch.float64
        assert_close(value, weights[name], rtol=0, atol=1e-10)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Train with one process, as everybody does."""
    out = tmp_path_factory.mktemp("alone") / "run"
    train(0, out)
    return out


@pytest.fixture(scope="module")
def steps(alone):
    """Return the last step of every epoch."""
    return [line["step"] for line in history(alone)]


def test_two_processes_that_share_the_weights_out_train_as_one_does(alone, tmp_path):
    train(2, tmp_path / "run", "--shard")
    assert_same_training(alone, tmp_path / "run")


def test_two_processes_train_as_one_does_though_one_is_killed_and_both_start_again(
    alone, steps, tmp_path
):
    printed = train(2, tmp_path / "run", restarts=1, kill=(1, steps[1] + 2))
    assert_same_training(alone, tmp_path / "run")
    assert printed.count("trained for") == 1


def test_a_training_goes_on_as_another_number_of_processes(alone, steps, tmp_path):
    out = tmp_path / "run"
    train(2, out, "--shard", kill=(0, steps[0] + 2))
    assert len(history(out)) == 1 and not (out / LAST).exists()
    train(0, out, "--resume", kill=(0, steps[1] + 2))
    assert len(history(out)) == 2 and find_sharded(out) is None
    train(2, out, "--resume")
    assert_same_training(alone, out)
