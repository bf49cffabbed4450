"""The folder of a training: its checkpoint, what it averages, its log, and who may write there."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from filelock import FileLock, Timeout
from platformdirs import user_data_path
from torch import Tensor, nn

from course_lib.atomic_write import write_whole
from course_lib.trainer.averaging import kept_weights
from course_lib.trainer.checkpoint import (
    FACTS,
    explaining,
    load_tensors,
    read_facts,
    remove_checkpoint,
    save_checkpoint,
)
from course_lib.trainer.distributed import job
from course_lib.trainer.hardware import describe_machine
from course_lib.trainer.task import Pipeline, TrainState

Kept = TypeVar("Kept", bound=Pipeline)

LAST = "last-" + 7 * "[0-9]"  # the folders of checkpoints, by their steps
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


def find_checkpoint(out: Path) -> Path | None:
    """Return the newest whole checkpoint of a training, or ``None``."""
    return max((facts.parent for facts in out.glob(f"{LAST}/{FACTS}")), default=None)


def read_kept(kind: type[Kept], out: Path) -> tuple[Kept, dict[str, Any]]:
    """Read the pipeline that a folder keeps, and the rest of its checkpoint but the optimizer's.

    Raises:
        ValueError: If there is none, or the checkpoint is of something else.
    """
    folder = find_checkpoint(out)
    if folder is None:
        raise ValueError(f"there is no checkpoint in {out}; train one first")
    try:
        facts = read_facts(folder)
        with explaining(folder, kind.what):
            pipeline = kind.from_facts(facts)
            load_tensors(folder, named_weights(pipeline.model, all_names=True))
    except (ValueError, OSError):
        if find_checkpoint(out) == folder:
            raise
        return read_kept(kind, out)  # a training went on meanwhile
    return pipeline, facts


def named_weights(model: nn.Module, all_names: bool = False) -> dict[str, Tensor]:
    """Name all weights; those that layers share once, or under all their names."""
    named = model.named_parameters(remove_duplicate=not all_names)
    return {f"model.{name}": weight for name, weight in named}


def named_moments(state: TrainState) -> dict[str, Tensor]:
    """Name what an optimizer like Adam remembers; a new one begins with zeros."""
    named: dict[str, Tensor] = {}
    for name, weight in state.pipeline.model.named_parameters():
        moments = state.optimizer.state[weight]
        if not moments:
            moments["step"] = torch.zeros((), device=weight.device)
            moments["exp_avg"] = torch.zeros_like(weight)
            moments["exp_avg_sq"] = torch.zeros_like(weight)
        named |= {f"optimizer.{name}.{moment}": value for moment, value in moments.items()}
    return named


def save(state: TrainState, out: Path) -> None:
    """Write the checkpoint, then remove older ones, and write the log anew. All must call.

    Raises:
        ValueError: If a loss or weight is no number any more; what was kept last stays.
    """
    norm: Any = nn.utils.get_total_norm(state.pipeline.model.parameters())
    norm = norm.full_tensor() if state.sharded else norm
    refuse_non_finite("norm of all weights", norm.item(), state, out)
    folder = out / f"last-{state.step:07d}"
    tensors = named_weights(state.pipeline.model) | named_moments(state)
    save_checkpoint(folder, facts_of(state, out), tensors, state.world)
    if state.world.is_main:
        others = kept_weights(out)[len(state.history) :]  # epochs of a training before this one
        for old in {*out.glob(f"{LAST}/"), *others} - {folder}:
            remove_checkpoint(old)
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


def restore(state: TrainState, out: Path, facts: dict[str, Any]) -> None:
    """Put back all that ``read_kept`` left, and into a sharded model its part of the weights.

    Raises:
        ValueError: If the checkpoint is of something else or of other data.
    """
    folder = find_checkpoint(out)
    with explaining(folder, state.pipeline.what):
        same = facts["data"] == state.task.checksum
        weights = named_weights(state.pipeline.model, all_names=True)
        load_tensors(folder, weights | named_moments(state))
        state.step = facts["step"]
        state.seconds = facts["seconds"]
        state.history = facts["history"]
        if state.world.is_main:  # the sum over all processes is what it was
            state.losses += torch.as_tensor(facts["losses"]).to(state.losses)
    if not same:
        raise ValueError(f"{out} was begun with another text: train anew, or in another folder")


def finite_losses(state: TrainState, out: Path) -> Tensor:
    """Sum all processes' losses since the last measurement, if they are numbers; all must ask."""
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
    last = find_checkpoint(out)
    kept = f"{last} is as it was before" if last else "nothing is kept yet"
    raise ValueError(
        f"the {name} is {value} at step {state.step}: begin anew with a lower rate; {kept}"
    )


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep a second training out of a folder for as long as it is entered.

    Raises:
        ValueError: If another process trains there.
    """
    out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(out / LOCK, timeout=0):
            for left in out.glob(f"{LOG}.*.part"):  # by a process that was killed while it wrote
                left.unlink(missing_ok=True)
            yield
    except Timeout:
        raise ValueError(f"another process trains in {out}: stop it, or take --out") from None
