"""For each task, the training loop stops, resumes to the last bit, measures and saves."""

import math
import shutil
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from parity import says
from tiny_tasks import TASKS, without_clock, write_play

from course_lib.data import draw_pairs
from course_lib.tasks.multi30k import Multi30k, read_pairs
from course_lib.trainer import loop
from course_lib.trainer.checkpoint import read_metadata
from course_lib.trainer.distributed import World
from course_lib.trainer.loop import start, train
from course_lib.trainer.run_folder import find_checkpoint, read_checkpoint, save

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder that contains a small play."""
    return write_play(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module", params=TASKS)
def task(request, data):
    """Return a task and a function that begins its run."""
    about = TASKS[request.param]

    def begin(out, **changes):
        config = replace(about.config, **changes)
        checkpoint = read_checkpoint(out) if find_checkpoint(out) else None
        return start(about.task_class, config, checkpoint, data=data)

    return SimpleNamespace(**vars(about), begin=begin)


@pytest.fixture(scope="module")
def whole(task, tmp_path_factory):
    """Train without a stop, and return the run and its folder."""
    out = tmp_path_factory.mktemp("whole")
    run = task.begin(out)
    assert train(run, out)
    return run, out


@pytest.fixture
def run(task, tmp_path):
    """Return a training run after one step."""
    run = task.begin(tmp_path)
    loop.make_step(run)
    return run


def assert_same_run(run, other):
    """Assert that weights, moments and history agree to the last bit."""
    mine, theirs = (r.pipeline.model.state_dict() for r in (run, other))
    assert all(torch.equal(value, theirs[name]) for name, value in mine.items())
    states = [r.optimizer.state_dict()["state"] for r in (run, other)]
    for place, moments in states[0].items():
        assert all(torch.equal(moments[name], states[1][place][name]) for name in moments)
    assert without_clock(run.history) == without_clock(other.history)


# --- resuming


@pytest.mark.parametrize(("stop_at", "bfloat16"), [(1, False), (3, True)])
def test_a_stop_at_any_step_changes_no_bit(stop_at, bfloat16, task, whole, tmp_path):
    expected = whole[0]
    if bfloat16:
        expected = task.begin(tmp_path / "whole", bfloat16=True)
        train(expected, tmp_path / "whole")
        first = [run.history[0]["train_loss"] for run in (whole[0], expected)]
        assert first[0] != first[1] == pytest.approx(first[0], rel=0.02)
    for _ in range(100):
        run = task.begin(tmp_path / "parts", bfloat16=bfloat16)
        last = run.step + stop_at
        torch.manual_seed(999)  # the global random state has no effect
        run.pipeline.model.eval()
        if train(run, tmp_path / "parts", stop=lambda r=run, n=last: r.step >= n):
            break
    assert_same_run(run, expected)


def test_the_checkpoint_is_written_when_measured_and_every_few_steps(task, tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(loop, "SAVE_EVERY", 3)
    monkeypatch.setattr(loop, "save", lambda run, out: saved.append(run.step))
    run = task.begin(tmp_path)
    train(run, tmp_path)
    assert saved == sorted({*task.measured, *range(3, run.task.steps + 1, 3)})
    assert [line["step"] for line in run.history] == task.measured


def test_the_limit_in_minutes_counts_all_sessions_of_a_run(task, tmp_path, monkeypatch):
    passing = ({"wall": 20.0 * n, "cpu": 80.0 * n} for n in count())  # in every step
    monkeypatch.setattr(loop, "clocks", lambda: next(passing))
    longer = dict(epochs=20) if task.task_class is Multi30k else dict(steps=40)
    for starts in (1, 2):
        run = task.begin(tmp_path, **longer)
        assert not train(run, tmp_path, minutes=2 * starts)
        assert run.step == starts * 6
    minutes = [run.history[0][f"{name}_minutes"] for name in ("wall", "cpu")]
    assert minutes == pytest.approx([4 * 20 / 60, 4 * 80 / 60])  # at the time of the measurement


def test_fit_trains_the_same_model_and_writes_no_file(task, whole, data, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    learner = task.task_class(task.config, data)
    assert_same_run(loop.fit(learner, learner.pipeline.model), whole[0])
    assert not list(tmp_path.iterdir())


# --- measuring and rejecting


def test_a_diverging_run_stops_and_keeps_its_last_good_checkpoint(task, tmp_path):
    parts = ("loss", "at step", "lower learning rate", "earlier checkpoints are")
    with pytest.raises(ValueError, match=says(*parts)):
        train(task.begin(tmp_path, **task.wild), tmp_path)
    assert not find_checkpoint(tmp_path)
    run = task.begin(tmp_path)
    train(run, tmp_path, stop=lambda: run.step == 2)
    kept = find_checkpoint(tmp_path)
    next(run.pipeline.model.parameters()).data.fill_(math.nan)
    with pytest.raises(ValueError, match="all weights is nan at step 2"):
        save(run, tmp_path)  # as at a stop, when the loss of these weights is unknown
    with pytest.raises(ValueError, match="nan at step 4"):
        train(run, tmp_path)
    assert read_metadata(kept)["step"] == 2


def test_the_older_of_two_checkpoints_is_read_if_the_newest_is_damaged(whole, tmp_path, capsys):
    older, newest = tmp_path / "last-0000004", tmp_path / "last-0000005"
    for folder in (older, newest):
        shutil.copytree(find_checkpoint(whole[1]), folder)
    path = next(newest.glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-9])
    assert read_checkpoint(tmp_path).folder == older
    said = capsys.readouterr().err
    assert newest.name in said and f"older checkpoint {older.name} is read instead" in said
    older.rename(tmp_path / "last-0000000")  # of an earlier run, which this one replaces
    with pytest.raises(ValueError, match=newest.name):
        read_checkpoint(tmp_path)


def test_a_run_rejects_other_data(task, whole, tmp_path, monkeypatch):
    for name, read in (("multi30k.read_pairs", read_pairs), ("numbers.draw_pairs", draw_pairs)):
        turned = lambda *words, read=read, **options: read(*words, **options)[::-1]  # noqa: E731
        monkeypatch.setattr(f"course_lib.tasks.{name}", turned)
    folder = write_play(tmp_path)
    path = folder / "tinyshakespeare" / "input.txt"
    path.write_text(path.read_text().replace("went", "gone"))  # with the same characters
    with pytest.raises(ValueError, match="training on different data"):
        start(task.task_class, task.config, read_checkpoint(whole[1]), data=folder)


def test_accumulated_micro_batches_give_the_step_of_the_whole_batch(task, tmp_path):
    ends = []
    for parts in (1, 3, 30):  # 30, so most of them have no row
        run = task.begin(tmp_path / str(parts), dropout=0.0)
        run.pipeline.model.double()
        run.optimizer = torch.optim.SGD(run.pipeline.model.parameters(), lr=1.0)
        run.accumulate = parts
        for _ in range(2):
            loop.make_step(run)
        ends.append((run.losses, run.pipeline.model.state_dict()))
    (expected, whole), *others = ends
    for losses, weights in others:
        torch.testing.assert_close(losses, expected, rtol=1e-6, atol=0)
        torch.testing.assert_close(weights, whole, rtol=0, atol=1e-10)


def test_every_micro_batch_of_every_step_differs_in_data_and_dropout(run):
    share, asked, seeds = run.task.micro_batch, [], []
    run.task.micro_batch = lambda step, *which: asked.append(which) or share(step, *which)
    for run.step in (4, 5):
        for rank in (0, 1):
            run.world, run.accumulate = World(rank, 2), 3
            seeds += [torch.initial_seed() for _ in loop.micro_batch_losses(run)]
    assert asked == [(part, 6) for part in range(6)] * 2 and len(set(seeds)) == 12
    run.world, run.accumulate, run.step = World(), 1, 4
    loop.make_step(run)
    assert torch.initial_seed() == seeds[0]  # it depends only on step and part
