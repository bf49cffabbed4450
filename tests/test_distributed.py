"""Several processes train as one does, survive a kill, and go on as another number of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gpt_fixtures import write_play
from torch.testing import assert_close

from course_lib.tasks.language_model import TextGenerator
from course_lib.tasks.multi30k import RealTranslator
from course_lib.tasks.numbers import Translator
from course_lib.trainer.run_folder import LAST, read_kept
from course_lib.trainer.sharded_checkpoint import find_sharded

WORKER = Path(__file__).parent / "distributed_worker.py"  # the command line, in float64
FRESH = {
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # or a restart may look for the dead
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5",  # seconds
}
# A small rate: Adam divides what is left of gradients that are 0 by mathematics by its 1e-9.
TINY = "num_pairs=60 vocab_size=70 d_model=12 num_heads=3 num_layers=1 d_ff=20 batch_size=5 "
TINY += "rate_scale=0.02 steps=12 warmup_steps=3 cooldown_steps=1 val_every=4"
TASKS = {  # the class of its pipelines, and the words that describe it
    "numbers": (Translator, "", TINY),
    "multi30k": (RealTranslator, "--size smoke", "epochs=3 num_pairs=40 tokens=300 vocab_size=90 "
                 "bfloat16=False d_model=16 d_ff=24 num_layers=1 dropout=0.0"),
    "gpt": (TextGenerator, "--text shakespeare", "steps=12 val_every=4 val_windows=7 batch_size=3 "
            "warmup_steps=3 max_len=8 num_layers=2 num_heads=2 d_model=12"),
}  # fmt: skip


def train(task, processes, out, *words, restarts=0, kill=None):
    """Train with so many processes (0: without torchrun), and return what was printed.

    ``kill``, a rank and a step: that process dies then.
    """
    _, size, settings = TASKS[task]
    told = ["train", "--task", task, *size.split(), "--out", str(out), *words]
    told += [word for setting in settings.split() for word in ("--set", setting)]
    many = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    many += [f"--max-restarts={restarts}", "--monitor-interval=0.1"]
    note = Path(f"{out}-note")
    order = {"COURSE_TEST_KILL": f"{kill[0]} {kill[1]} {note}"} if kill else {}
    order["COURSE_DATA"] = str(out.parent / "data") if task == "gpt" else ""
    running = subprocess.Popen(
        [sys.executable, *(many if processes else []), str(WORKER), *told],
        env={**os.environ, "OMP_NUM_THREADS": "1", **FRESH, **order},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        told, errors = running.communicate(timeout=200)
    finally:
        running.terminate()  # torchrun then ends its processes; a kill would leave them behind
    assert note.exists() == bool(kill), f"who was to be killed was: {told}{errors}"
    note.unlink(missing_ok=True)
    survives = not kill or restarts > 0
    assert (running.returncode == 0) == survives, told + errors
    return told


def kept(task, out):
    """Return the weights that a folder keeps, in float64, and the losses and scores so far."""
    torch.set_default_dtype(torch.float64)
    try:
        pipeline, content = read_kept(TASKS[task][0], out)
    finally:
        torch.set_default_dtype(torch.float32)
    lines = content["history"]
    seen = [{k: v for k, v in line.items() if not k.endswith("minutes")} for line in lines]
    return pipeline.model.state_dict(), seen


def assert_same_training(task, one, other):
    """Compare every loss and score, and the weights in the end."""
    (weights, first), (others, second) = (kept(task, out) for out in (one, other))
    assert len(first) == len(second) == 3
    for before, after in zip(first, second, strict=True):
        assert before == pytest.approx(after, rel=0, abs=1e-10)
    for name, value in weights.items():
        assert value.dtype == torch.float64
        assert_close(value, others[name], rtol=0, atol=1e-10)


@pytest.fixture(scope="module", params=TASKS)
def alone(request, tmp_path_factory):
    """Train with one process, as everybody does; return the task, the folder, and the steps."""
    folder = tmp_path_factory.mktemp("alone")
    write_play(folder / "data")
    train(request.param, 0, folder / "run")
    steps = [line["step"] for line in kept(request.param, folder / "run")[1]]
    return request.param, folder, steps


def test_two_processes_train_as_one_does_though_one_is_killed_and_both_start_again(alone):
    task, folder, steps = alone
    printed = train(task, 2, folder / "restarted", restarts=1, kill=(1, steps[1] + 2))
    assert_same_training(task, folder / "run", folder / "restarted")
    assert printed.count("trained to step") == 1


def test_a_sharded_training_goes_on_as_another_number_of_processes(alone):
    task, folder, steps = alone
    out = folder / "shared"
    train(task, 2, out, "--shard", kill=(0, steps[0] + 2))
    assert len(kept(task, out)[1]) == 1 and not (out / LAST).exists()
    train(task, 0, out, "--resume", kill=(0, steps[1] + 2))
    assert len(kept(task, out)[1]) == 2 and find_sharded(out) is None
    train(task, 2, out, "--resume")
    assert_same_training(task, folder / "run", out)
