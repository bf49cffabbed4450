"""Several processes train like one, and another number of processes can continue the run."""

import multiprocessing
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint
import torch.distributed.fsdp  # so forked processes do not import it again
from distributed_worker import course
from tiny_tasks import NUMBERS, REAL, TASKS, WRITER, settings, without_clock, write_play
from torch.testing import assert_close

from course_lib.trainer.checkpoint import read_metadata
from course_lib.trainer.run_folder import find_checkpoint, load_pipeline

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows cannot fork")
FORK = multiprocessing.get_context("fork" if os.name != "nt" else None)  # torch is imported once
# A small rate, because Adam divides the rounding errors of zero gradients by its epsilon of 1e-9.
CONFIGS = {
    "numbers": replace(NUMBERS, num_pairs=60, rate_scale=0.02, steps=12, dropout=0.0),
    "multi30k": replace(REAL, epochs=3, dropout=0.0),
    "gpt": replace(WRITER, steps=12, num_layers=2, dropout=0.0, peak_rate=1e-3),
}


def train(task, processes, out, *words, kill=None):
    """Train with this many forked processes, in one world if there are several.

    ``kill`` is a rank and a step at which that process dies; then we kill the other ones.
    """
    own = [*TASKS[task].words, *settings(CONFIGS[task])]
    command = ["train", "--task", task, *own, "--out", str(out), *words]
    environment = {"COURSE_DATA": str(out.parent / "data") if task == "gpt" else ""}
    if kill:
        environment["COURSE_TEST_KILL"] = f"{kill[0]} {kill[1]}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        world = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
    world |= dict(TORCHELASTIC_RUN_ID="test", WORLD_SIZE=str(processes))
    running = []
    for rank in range(processes):
        mine = world | dict(RANK=str(rank), LOCAL_RANK=str(rank)) if processes > 1 else {}
        log = f"{out}-rank{rank}.txt"
        running.append(FORK.Process(target=course, args=(command, environment | mine, log)))
        running[-1].start()
    try:
        for process in running if kill is None else [running[kill[0]]]:
            process.join(120)
            printed = Path(f"{out}-rank0.txt").read_text()
            assert process.exitcode == (-signal.SIGKILL if kill else 0), printed
    finally:
        for process in running:
            process.kill()
            process.join()


def last_checkpoint(task, out):
    """Return the weights in a folder, in float64, and the losses and scores so far."""
    torch.set_default_dtype(torch.float64)
    try:
        pipeline, content = load_pipeline(TASKS[task].task_class.pipeline_class, out)
    finally:
        torch.set_default_dtype(torch.float32)
    return pipeline.model.state_dict(), without_clock(content["history"])


def shards(out):
    return list(find_checkpoint(out).glob("*.safetensors"))


def assert_same_training(task, one, other):
    """Compare every loss and score, and the final weights."""
    (weights, first), (others, second) = (last_checkpoint(task, out) for out in (one, other))
    assert len(first) == len(second) == 3
    for before, after in zip(first, second, strict=True):
        assert before == pytest.approx(after, rel=0, abs=1e-10)
    for name, value in weights.items():
        assert value.dtype == torch.float64
        assert_close(value, others[name], rtol=0, atol=1e-10)


@pytest.fixture(scope="module", params=CONFIGS)
def alone(request, tmp_path_factory):
    """Train with one process; return the task, the folder, and the steps."""
    folder = tmp_path_factory.mktemp("alone")
    write_play(folder / "data")
    train(request.param, 1, folder / "run")
    steps = [line["step"] for line in last_checkpoint(request.param, folder / "run")[1]]
    return request.param, folder, steps


def test_two_processes_train_like_one(alone):
    task, folder, steps = alone
    train(task, 2, folder / "both")
    assert_same_training(task, folder / "run", folder / "both")
    assert read_metadata(find_checkpoint(folder / "both"))["machine"].endswith(", 2 processes")


@pytest.mark.parametrize("alone", ["gpt"], indirect=True)
def test_a_sharded_run_continues_with_another_number_of_processes(alone):
    task, folder, steps = alone
    out = folder / "shared"
    train(task, 2, out, "--shard", kill=(0, steps[0] + 3))
    assert len(last_checkpoint(task, out)[1]) == 1 and len(shards(out)) == 2
    train(task, 1, out, "--resume", kill=(0, steps[1] + 3))
    assert len(last_checkpoint(task, out)[1]) == 2 and len(shards(out)) == 1
    train(task, 2, out, "--resume", "--shard")
    assert_same_training(task, folder / "run", out)
