"""One loop for everything that learns: a step, a measurement, a checkpoint (§5)."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from course_lib.trainer.averaging import keep_weights
from course_lib.trainer.distributed import World, parallelize
from course_lib.trainer.hardware import mixed_precision
from course_lib.trainer.options import refuse_another
from course_lib.trainer.run_folder import (
    find_checkpoint,
    finite_losses,
    read_kept,
    refuse_non_finite,
    restore,
    save,
)
from course_lib.trainer.task import Pipeline, Task, TrainState
from course_lib.training import training_step

SAVE_EVERY = 200  # steps
ASK_EVERY = 10  # steps: so often several processes agree on whether to stop
SEEDS = 1_000_003  # between two seeds: more than a training has steps


def start(
    kind: type[Task],
    config: Any,
    out: Path,
    *,
    data: Path | str | None = None,
    device: str = "cpu",
    anew: bool = False,
    world: World | None = None,
    sharded: bool = False,
    accumulate: int = 1,
) -> TrainState:
    """Begin a training, or go on with the one kept in a folder.

    Args:
        kind: What is trained.
        config: With which numbers.
        out: The folder of its checkpoints.
        data: The folder of the corpus; what COURSE_DATA names unless given.
        device: ``"cpu"`` or ``"cuda"``.
        anew: Whether what is kept there plays no part.
        world: The processes that train it, all of which must call; this one alone unless given.
        sharded: Whether weights, gradients and moments are sharded among them, too.
        accumulate: Micro-batches of a step: each process reads its rows in so many parts.

    Raises:
        ValueError: If the folder keeps a training with other numbers or data or of something
            else, or data are missing.
    """
    kept = not anew and find_checkpoint(out)
    pipeline, content = read_kept(kind.kind, out) if kept else (None, {})
    if kept:
        refuse_another(out, pipeline.config, config)
    task = kind(config, data, pipeline)
    world = world or World()
    sharded = sharded and world.size > 1
    engine = parallelize(task.engine().to(device), world, sharded=sharded)
    state = TrainState(task, engine, task.optimizer(), world, sharded, accumulate)
    state.losses = state.losses.to(device)
    if kept:
        restore(state, out, content)
    return state


def make_step(state: TrainState) -> None:
    """Make the next training step without reading a number from the device."""
    state.engine.train()
    losses, rate = micro_batch_losses(state), state.task.rate(state.step + 1)
    model, clip_norm = state.pipeline.model, state.task.clip_norm
    training_step(model, state.optimizer, losses, rate, clip_norm=clip_norm)
    state.step += 1


def micro_batch_losses(state: TrainState) -> Iterator[Tensor]:
    """Yield the weighted loss of each of this process's micro-batches of the next step.

    The task treats a micro-batch like the share of one more process. The loss is weighted by its
    number of tokens, so unequal micro-batches add up to the gradients of the whole batch.
    """
    parts = state.accumulate * state.world.size
    for part in range(state.accumulate):
        number = state.world.rank * state.accumulate + part
        seed_step(state, 0)  # every part draws the same whole batch
        batch, weight = state.task.share(state.step + 1, number, parts)
        if number > 0:
            seed_step(state, number)  # dropout drops something else in every part
        last = part == state.accumulate - 1
        sync = nullcontext() if last else getattr(state.engine, "no_sync", nullcontext)()
        with sync:  # open during the backward pass, too: processes add up gradients once a step
            with mixed_precision(state.pipeline.config.bfloat16, state.losses.device.type):
                loss = state.task.loss(state.engine, batch)
            loss = loss * (weight / state.accumulate)
            counted = torch.full_like(loss, 1 / state.accumulate)
            state.losses += torch.stack([loss.detach(), counted]) / state.world.size
            yield loss


def seed_step(state: TrainState, part: int) -> None:
    """Settle what is random in the next step; telling the devices that are not used takes long."""
    seed = SEEDS * (state.pipeline.config.seed + SEEDS * part) + state.step + 1
    torch.default_generator.manual_seed(seed)
    if state.losses.is_cuda:
        torch.cuda.manual_seed(seed)


def measure(state: TrainState, out: Path) -> None:
    """Measure on val, add a line to the history, keep the weights for the average."""
    pipeline = whole_pipeline(state)
    losses = finite_losses(state, out)
    state.losses.zero_()
    if pipeline:
        rate = state.task.rate(state.step)
        line = {"step": state.step, "rate": rate, "train_loss": (losses[0] / losses[1]).item()}
        line |= state.task.measure(pipeline, state.step)
        refuse_non_finite("loss on val", line["val_loss"], state, out)
        state.history.append(line)
        if state.task.keep_last:
            keep_weights(out, len(state.history), pipeline.model, state.task.keep_last)
    state.world.wait()


def whole_pipeline(state: TrainState) -> Pipeline | None:
    """Return the pipeline with all its weights, if this is the main process; all must ask."""
    if not state.sharded:
        return state.pipeline if state.world.is_main else None
    whole = state.task.kind.from_facts(state.pipeline.facts())
    whole.model.to(state.losses.device)
    shards = state.pipeline.model.parameters()
    for weight, shard in zip(whole.model.parameters(), shards, strict=True):
        weight.detach().copy_(shard.full_tensor())
    return whole if state.world.is_main else None


def train(
    state: TrainState,
    out: Path,
    *,
    minutes: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train to the last step, or until time is up or somebody asks to stop; keep it on disk.

    Args:
        state: What ``start`` returned.
        out: The folder of checkpoints and log.
        minutes: Time to spend over all starts; no limit unless given.
        stop: Asked after every step; of several processes, after every tenth.

    Returns:
        Whether the last step is done.

    Raises:
        ValueError: If a loss is no number any more; what was kept last stays.
    """
    silent = None if state.world.is_main else True  # None: a bar on a screen, none in a file
    enough = False
    now = clocks()
    with tqdm(total=state.task.steps, initial=state.step, unit="step", disable=silent) as bar:
        while state.step < state.task.steps and not enough:
            make_step(state)
            measured = state.task.is_measured(state.step)
            if measured:
                measure(state, out)
            bar.update()
            before, now = now, clocks()
            for name, seconds in now.items():
                state.seconds[name] += seconds - before[name]
                for line in state.history[-1:] if measured else ():
                    line[f"{name}_minutes"] = state.seconds[name] / 60
            late = minutes is not None and state.seconds["wall"] >= 60 * minutes
            enough = any_rank(state, stop() or late)
            if measured or enough or state.step % SAVE_EVERY == 0:
                save(state, out)
    return state.step >= state.task.steps


def fit(task: Task, model: nn.Module) -> TrainState:
    """Train a model of one's own as a task trains its own, and keep nothing on disk.

    Args:
        task: Says on what, at which rates, and how it is measured; its pipeline gets the model.
        model: What learns.

    Raises:
        ValueError: If a loss is no number any more.
    """
    task.pipeline = replace(task.pipeline, model=model)
    state = TrainState(task, model, task.optimizer())
    with TemporaryDirectory() as folder:
        train(state, Path(folder))
    return state


def clocks() -> dict[str, float]:
    """Read the time, and the time of all threads, in seconds."""
    return {"wall": time.monotonic(), "cpu": time.process_time()}


def any_rank(state: TrainState, wish: bool) -> bool:
    """Tell whether any process wants to stop; several ask each other every few steps only."""
    asked = state.world.size == 1 or state.step % ASK_EVERY == 0
    return asked and state.world.any_rank(wish, state.losses.device.type)


@contextmanager
def graceful_shutdown(*, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C (and a plain kill) ask for a stop after the step; a second one stops at once.

    Not if it is ``patient``: both the terminal and ``torchrun`` tell each of several processes.
    """
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        """Remember the first signal; obey the second."""
        if asked and not patient:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
