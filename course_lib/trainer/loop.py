"""One loop for all tasks: steps, measurements and checkpoints (§5)."""

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from course_lib.trainer.checkpoint import Checkpoint
from course_lib.trainer.distributed import ALONE, World, parallelize
from course_lib.trainer.hardware import check_memory, mixed_precision
from course_lib.trainer.options import TrainingConfig, check_same_config
from course_lib.trainer.run_folder import build_pipeline, check_finite, finite_losses, restore, save
from course_lib.trainer.task import P, Pipeline, Task, TrainState
from course_lib.training import training_step

SAVE_EVERY = 200  # steps
ASK_EVERY = 10  # steps after which several processes agree on whether to stop
SHOW_EVERY = 20  # steps after which the bar shows the loss
SEEDS = 1_000_003  # distance between seeds: more than the steps of a training run


def start(
    task_class: type[Task[P]],
    config: TrainingConfig,
    checkpoint: Checkpoint | None = None,
    *,
    data: Path | None = None,
    device: str = "cpu",
    world: World = ALONE,
    sharded: bool = False,
    accumulate: int = 1,
) -> TrainState:
    """Begin a training run, or continue the one in a checkpoint from ``read_checkpoint``.

    The data come from the folder ``data``, or from COURSE_DATA. Every process of ``world`` must
    call this; if ``sharded``, each keeps a shard of the weights. Each process splits its rows into
    ``accumulate`` micro-batches. Raises ValueError if the checkpoint is from a different run, the
    data are missing, or there is not enough memory.
    """
    pipeline = None
    if checkpoint:
        pipeline = build_pipeline(task_class.pipeline_class, checkpoint)
        check_same_config(checkpoint.folder, pipeline.config, config)
    task = task_class(config, data, pipeline)
    positions = task.positions / (world.size * accumulate)
    check_memory(config, len(task.pipeline.tokenizer), positions)
    sharded = sharded and world.size > 1
    module = parallelize(task.training_module().to(device), world, sharded=sharded)
    state = TrainState(task, module, task.optimizer(), world, sharded, accumulate)
    state.losses = state.losses.to(device)
    if checkpoint:
        restore(state, checkpoint)
    return state


def make_step(state: TrainState) -> None:
    """Take the next training step, without waiting for results from the device."""
    state.module.train()
    losses, rate = micro_batch_losses(state), state.task.rate(state.step + 1)
    model, clip_norm = state.pipeline.model, state.task.clip_norm
    training_step(model, state.optimizer, losses, rate, clip_norm=clip_norm)
    state.step += 1


def micro_batch_losses(state: TrainState) -> Iterator[Tensor]:
    """Yield the loss on each of this process's micro-batches in the next step.

    Losses are weighted by token counts, so that the gradients add up to the whole batch's.
    """
    parts = state.accumulate * state.world.size
    for part in range(state.accumulate):
        number = state.world.rank * state.accumulate + part
        seed_step(state, 0)  # every part draws the same whole batch
        batch, weight = state.task.micro_batch(state.step + 1, number, parts)
        if number > 0:
            seed_step(state, number)  # every part has its own dropout
        last = part == state.accumulate - 1
        sync = nullcontext() if last else getattr(state.module, "no_sync", nullcontext)()
        with sync:  # open during the backward pass, too: processes add up gradients once a step
            with mixed_precision(state.pipeline.config.bfloat16, state.losses.device.type):
                loss = state.task.loss(state.module, batch)
            loss = loss * (weight / state.accumulate)
            counted = torch.full_like(loss, 1 / state.accumulate)
            state.losses += torch.stack([loss.detach(), counted]) / state.world.size
            yield loss


def seed_step(state: TrainState, part: int) -> None:
    """Seed the next step's random numbers, but skip unused devices, because seeding is slow."""
    seed = SEEDS * (state.pipeline.config.seed + SEEDS * part) + state.step + 1
    torch.default_generator.manual_seed(seed)
    if state.losses.is_cuda:
        torch.cuda.manual_seed(seed)


def measure(state: TrainState) -> None:
    """Evaluate on the validation data, in the main process only, and add a line to the history."""
    pipeline = whole_pipeline(state)
    losses = finite_losses(state)
    state.losses.zero_()
    rate = state.task.rate(state.step)
    line = {"step": state.step, "rate": rate, "train_loss": (losses[0] / losses[1]).item()}
    if pipeline:
        line |= state.task.measure(pipeline, state.step)
        check_finite("loss on val", line["val_loss"], state)
    state.history.append(line)
    state.world.wait()


def whole_pipeline(state: TrainState) -> Pipeline | None:
    """Return the pipeline with all weights to the main process; every process must call this."""
    if not state.sharded:
        return state.pipeline if state.world.is_main else None
    whole = state.task.pipeline_class.from_metadata(state.pipeline.metadata())
    whole.model.to(state.losses.device)
    shards: Iterable[Any] = state.pipeline.model.parameters()
    for weight, shard in zip(whole.model.parameters(), shards, strict=True):
        weight.detach().copy_(shard.full_tensor())
    return whole if state.world.is_main else None


def train(
    state: TrainState,
    out: Path | None,
    *,
    minutes: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[dict[str, float]], None] | None = None,
) -> bool:
    """Train to the last step, or until the time is up or the user asks to stop.

    Checkpoints go to the folder ``out``; nothing is written if it is ``None``. ``minutes`` includes
    the time before the run was resumed. ``stop`` is called after every step, and ``report`` is
    called with every new line of the history. Returns whether the last step was reached.
    Raises ValueError if a loss or weight is nan or infinite; earlier checkpoints are kept.
    """
    silent = None if state.world.is_main else True  # None: a bar on a screen, none in a file
    enough = False
    now = clocks()
    with tqdm(total=state.task.steps, initial=state.step, unit="step", disable=silent) as bar:
        while state.step < state.task.steps and not enough:
            make_step(state)
            measured = state.task.is_measured(state.step)
            if measured:
                measure(state)
            advance(bar, state)
            before, now = now, clocks()
            for name, seconds in now.items():
                state.seconds[name] += seconds - before[name]
                if measured:
                    state.history[-1][f"{name}_minutes"] = state.seconds[name] / 60
            late = minutes is not None and state.seconds["wall"] >= 60 * minutes
            enough = any_rank(state, stop() or late)
            if out and (measured or enough or state.step % SAVE_EVERY == 0):
                save(state, out)
            if measured and report:
                report(state.history[-1])
    return state.step >= state.task.steps


def advance(bar: tqdm, state: TrainState) -> None:
    """Advance the progress bar by a step, and show the losses from time to time."""
    if not bar.disable and (state.step % SHOW_EVERY == 0 or state.task.is_measured(state.step)):
        bar.set_postfix_str(latest_losses(state), refresh=False)
    bar.update()


def latest_losses(state: TrainState) -> str:
    """Return the latest losses. On a GPU, read them only after a measurement, to avoid stalls."""
    read = state.losses.device.type == "cpu" or state.task.is_measured(state.step)
    total, count = state.losses.tolist() if read else (0.0, 0.0)
    losses = dict(state.history[-1]) if state.history else {}
    losses |= {"train_loss": total / count} if count else {}
    names = ("train_loss", "val_loss")
    return ", ".join(f"{x.replace('_', ' ')} {losses[x]:.3f}" for x in names if x in losses)


def fit(task: Task, model: nn.Module) -> TrainState:
    """Train a given model on a task, without writing any files.

    The task's pipeline gets the model. Raises ValueError if a loss is nan or infinite.
    """
    task.pipeline = replace(task.pipeline, model=model)
    state = TrainState(task, task.training_module(), task.optimizer())
    train(state, None)
    return state


def clocks() -> dict[str, float]:
    """Return the wall-clock time, and the CPU time of all threads, in seconds."""
    return {"wall": time.monotonic(), "cpu": time.process_time()}


def any_rank(state: TrainState, wish: bool) -> bool:
    """Return whether any process wants to stop; multiple processes check only every few steps."""
    asked = state.world.size == 1 or state.step % ASK_EVERY == 0
    return asked and state.world.any_rank(wish, state.losses.device.type)


@contextmanager
def graceful_shutdown(*, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Stop a run after the current step on SIGINT or SIGTERM, and immediately on a second signal.

    If ``patient``, ignore the second signal, because the terminal and ``torchrun`` both send one.
    """
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        """Remember the first signal; stop at the second."""
        if asked and not patient:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
