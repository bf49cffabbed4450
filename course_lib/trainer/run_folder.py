"""The folder of a training: its checkpoint, written by one process or in shards, and its log."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from filelock import FileLock, Timeout
from platformdirs import user_data_path
from torch import Tensor

from course_lib.atomic_write import write_whole
from course_lib.trainer.averaging import kept_weights
from course_lib.trainer.checkpoint import explaining, load_checkpoint, save_checkpoint
from course_lib.trainer.distributed import job
from course_lib.trainer.hardware import describe_machine
from course_lib.trainer.sharded_checkpoint import (
    find_sharded,
    load_sharded,
    read_facts,
    remove_sharded,
    save_sharded,
)
from course_lib.trainer.task import Pipeline, TrainState

Kept = TypeVar("Kept", bound=Pipeline)

LAST = "last.pt"  # the checkpoint that one process goes on from
LOG = "log.txt"
LOCK = "training.lock"  # held by the process that trains in the folder; it dies with it


def checkpoints_folder(module: str = __file__) -> Path:
    """Say where trainings are kept: where COURSE_CHECKPOINTS says, else beside the package.

    A package whose ``module`` was installed keeps them in the user's data folder instead.
    """
    named = os.environ.get("COURSE_CHECKPOINTS")
    if named:
        return Path(named)
    root = Path(module).resolve().parents[2]
    if root.name in ("site-packages", "dist-packages"):
        root = user_data_path("course_lib", appauthor=False)
    return root / "checkpoints"


def is_kept(out: Path) -> bool:
    """Tell whether a folder keeps a training."""
    return last_checkpoint(out).exists()


def last_checkpoint(out: Path) -> Path:
    """Name the shards that a training is kept in, or else the file of one process."""
    return find_sharded(out) or out / LAST


def read_kept(kind: type[Kept], out: Path) -> tuple[Kept, dict[str, Any]]:
    """Read the pipeline that a folder keeps, and the rest of its checkpoint.

    Raises:
        ValueError: If there is none, or the checkpoint is of something else.
    """
    folder = find_sharded(out)
    content = load_checkpoint(out / LAST) if folder is None or (out / LAST).exists() else None
    facts = read_facts(folder) if folder else {}
    with explaining(out / LAST if content else folder, kind.what):
        if content and (not facts or content["step"] > facts["step"]):
            pipeline = kind.from_facts(content)
            pipeline.model.load_state_dict(content["model"])
            return pipeline, content
    with explaining(folder, kind.what):
        pipeline = kind.from_facts(facts)
        load_sharded(folder, pipeline.model)
    return pipeline, facts


def save(state: TrainState, out: Path) -> None:
    """Write the checkpoint, and the whole log anew: nothing stands in it twice. All must call.

    Raises:
        ValueError: If a loss is no number any more; what was kept last stays.
    """
    for name, seconds in state.seconds.items():  # what was measured is saved at once
        for line in state.history[-1:]:
            line.setdefault(f"{name}_minutes", seconds / 60)
    facts = facts_of(state, out)
    model = state.pipeline.model
    if state.world.size == 1:
        tensors = dict(model=model.state_dict(), optimizer=state.optimizer.state_dict())
        save_checkpoint(out / LAST, facts | tensors)
        remove_sharded(out)
    else:
        save_sharded(out, state.step, facts, model, state.optimizer, state.world)
    if state.world.is_main:
        if state.world.size > 1:
            (out / LAST).unlink(missing_ok=True)
        lines = [f"# {state.pipeline.config}"]
        for line in state.history:
            lines.append(" ".join(f"{name}={value:.6g}" for name, value in line.items()))
        write_whole(out / LOG, "\n".join(lines) + "\n")


def facts_of(state: TrainState, out: Path) -> dict[str, Any]:
    """Gather all that the next step depends on but tensors; all processes must ask.

    What is random in it needs nothing but its number.
    """
    world = f", {state.world.size} processes" if state.world.size > 1 else ""
    return {
        **state.pipeline.facts(),
        "data": state.task.checksum,
        "step": state.step,
        "job": job(),
        "seconds": dict(state.seconds),
        "machine": describe_machine(state.losses.device.type) + world,
        "history": list(state.history),
        "losses": finite_losses(state, out).tolist(),
    }


def restore(state: TrainState, out: Path, kept: dict[str, Any]) -> None:
    """Put back all that ``read_kept`` read but the weights of the model; they are there.

    Raises:
        ValueError: If the checkpoint is of something else or of other data, or one process wrote
            it and the weights are to be sharded.
    """
    alone = "model" in kept  # it was one process that kept it
    if state.sharded and alone:
        raise ValueError(f"{out / LAST} was written by one process: go on with it unsharded")
    with explaining(out / LAST if alone else find_sharded(out), state.pipeline.what):
        same = kept["data"] == state.task.checksum
        if alone:
            state.optimizer.load_state_dict(kept["optimizer"])
            _refuse_other_shapes(state.optimizer)
        else:
            load_sharded(find_sharded(out), state.pipeline.model, state.optimizer)
        state.step = kept["step"]
        state.seconds = kept["seconds"]
        state.history = kept["history"]
        if state.world.is_main:  # the sum over all processes is what it was
            state.losses += torch.as_tensor(kept["losses"]).to(state.losses)
    if not same:
        raise ValueError(f"{out} was begun with another text: train anew, or in another folder")


def _refuse_other_shapes(optimizer: torch.optim.Optimizer) -> None:
    """Refuse moments that fit no parameter: fused kernels would read beyond them."""
    for parameter, moments in optimizer.state.items():
        for name in ("exp_avg", "exp_avg_sq"):
            if moments[name].shape != parameter.shape:
                found, wanted = tuple(moments[name].shape), tuple(parameter.shape)
                raise ValueError(f"{name} has shape {found}, its parameter {wanted}")


def finite_losses(state: TrainState, out: Path) -> Tensor:
    """Sum the losses of all processes since the last measurement; all must ask.

    Raises:
        ValueError: If they are no numbers any more.
    """
    losses = state.world.total(state.losses)
    refuse_non_finite("training loss", losses[0].item(), state, out)
    return losses


def refuse_non_finite(name: str, value: float, state: TrainState, out: Path) -> None:
    """Stop before weights that are lost take the place of good ones.

    Raises:
        ValueError: If a loss is nan or infinite; the message names the step, and what is kept.
    """
    if math.isfinite(value):
        return
    kept = "nothing is kept yet"
    if is_kept(out):
        kept = f"{last_checkpoint(out)} is as it was before"
    raise ValueError(
        f"the {name} is {value} at step {state.step}: begin anew with a lower rate; {kept}"
    )


def remove_kept(out: Path) -> None:
    """Remove all that a training has left in a folder."""
    for old in [*kept_weights(out), out / LAST, out / LOG]:
        old.unlink(missing_ok=True)
    remove_sharded(out)


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep a second training out of a folder for as long as it is entered.

    Raises:
        ValueError: If another process trains there.
    """
    out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(out / LOCK, timeout=0):
            for left in out.glob("*.part"):  # by a process that was killed while it wrote
                left.unlink(missing_ok=True)
            yield
    except Timeout:
        raise ValueError(f"another process trains in {out}: stop it, or take --out") from None
