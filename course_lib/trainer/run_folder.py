"""The folder of a training run: its checkpoint, its saved epochs and its lock."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from course_lib.batching import average_weights
from course_lib.support.user_folders import user_folder
from course_lib.trainer.checkpoint import (
    METADATA,
    Checkpoint,
    explaining,
    load_tensors,
    read_metadata,
    remove_checkpoint,
    save_checkpoint,
)
from course_lib.trainer.hardware import describe_machine
from course_lib.trainer.options import LARGEST, check_range
from course_lib.trainer.task import P, TrainState

LAST = "last-" + 7 * "[0-9]"  # the folders of checkpoints, by their steps
REPLACEABLE = "last-0000000"  # older than any checkpoint of a new run
EPOCH = "epoch-" + 4 * "[0-9]"  # the folders of weights to average, by their epochs
LOCK = "training.lock"  # held by the process that trains in the folder, and released if it dies
TYPES = {"config": dict, "tokenizer": str, "data": int, "step": int, "seconds": dict}
TYPES |= {"machine": str, "history": list, "losses": list}


def checkpoints_folder() -> Path:
    """Return the folder for all training runs: COURSE_CHECKPOINTS, or ``checkpoints``."""
    return user_folder("COURSE_CHECKPOINTS", "checkpoints")


def find_checkpoint(out: Path) -> Path | None:
    """Return the newest complete checkpoint of a training run, or ``None``."""
    return max((metadata.parent for metadata in out.glob(f"{LAST}/{METADATA}")), default=None)


def read_checkpoint(out: Path) -> Checkpoint:
    """Read the newest checkpoint of a training run, except its tensors.

    If it is damaged and there is an older one of this run, say so, and read the older one.
    Raises ValueError if the checkpoint is missing, was changed, or is not from a training run.
    """
    found = sorted((metadata.parent for metadata in out.glob(f"{LAST}/{METADATA}")), reverse=True)
    if not found:
        raise ValueError(f"there is no checkpoint in {out}: run `course train` without --resume")
    folder, *older = [x for x in found if x.name != REPLACEABLE] or found
    while older:
        try:
            return _read(folder)
        except ValueError as error:
            folder = older.pop(0)
            print(f"{error}; the older checkpoint {folder.name} is read instead", file=sys.stderr)
    return _read(folder)


def _read(folder: Path) -> Checkpoint:
    """Read one checkpoint, except its tensors."""
    metadata = read_metadata(folder)
    with explaining(folder, "a training run"):
        for name, expected in TYPES.items():
            if type(metadata[name]) is not expected:
                raise TypeError(f"{name} must be of type {expected.__name__}")
        check_range("step", metadata["step"], 0, LARGEST)
        total, count = metadata["losses"]
        numbers = [total, count, metadata["seconds"]["wall"], metadata["seconds"]["cpu"]]
        numbers += [number for line in metadata["history"] for number in line.values()]
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a loss or a time is not finite")
    return Checkpoint(folder, metadata)


def build_pipeline(pipeline_class: type[P], checkpoint: Checkpoint) -> P:
    """Build the pipeline for a checkpoint, but with newly initialized weights.

    Raises ValueError if the checkpoint belongs to a different kind of pipeline.
    """
    with explaining(checkpoint.folder, pipeline_class.what):
        return pipeline_class.from_metadata(checkpoint.metadata)


def load_pipeline(pipeline_class: type[P], out: Path) -> tuple[P, dict[str, Any]]:
    """Load the pipeline in a folder, and return it with its checkpoint's metadata.

    Raises ValueError if there is no checkpoint, or if it belongs to a different kind of pipeline.
    """
    newest = find_checkpoint(out)
    try:
        checkpoint = read_checkpoint(out)
        pipeline = build_pipeline(pipeline_class, checkpoint)
        with explaining(checkpoint.folder, pipeline.what):
            load_tensors(checkpoint.folder, named_weights(pipeline.model, all_names=True))
    except (ValueError, OSError):
        if find_checkpoint(out) == newest:
            raise
        return load_pipeline(pipeline_class, out)  # the run has saved a newer one since
    return pipeline, checkpoint.metadata


def named_weights(model: nn.Module, all_names: bool = False) -> dict[str, Tensor]:
    """Return all weights by name; a shared weight has one name unless ``all_names`` is set."""
    named = model.named_parameters(remove_duplicate=not all_names)
    return {f"model.{name}": weight for name, weight in named}


def named_moments(state: TrainState) -> dict[str, Tensor]:
    """Return the moments of an optimizer like Adam, by name; in a new optimizer, they are zeros."""
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
    """Write the checkpoint, and then remove older ones; every process must call this.

    Raises ValueError if a loss or weight is nan or infinite; earlier checkpoints are kept.
    """
    norm: Any = nn.utils.get_total_norm(state.pipeline.model.parameters())
    norm = norm.full_tensor() if state.sharded else norm
    check_finite("norm of all weights", norm.item(), state)
    folder = out / f"last-{state.step:07d}"
    tensors = named_weights(state.pipeline.model) | named_moments(state)
    save_checkpoint(folder, metadata_of(state), tensors, state.world)
    if state.world.is_main:
        for old in {*out.glob(f"{LAST}/")} - {folder}:
            remove_checkpoint(old)
    save_epoch(state, out)


def save_epoch(state: TrainState, out: Path) -> None:
    """Keep the weights from the latest measurements to average them; every process calls this."""
    epoch = len(state.history)
    if state.world.is_main:
        for path in saved_epochs(out):
            if not 0 <= epoch - int(path.name.removeprefix("epoch-")) < state.task.keep_last:
                remove_checkpoint(path)
    state.world.wait()
    if state.task.keep_last and epoch and state.history[-1]["step"] == state.step:
        weights = named_weights(state.pipeline.model)
        save_checkpoint(out / f"epoch-{epoch:04d}", {}, weights, state.world)


def saved_epochs(out: Path) -> list[Path]:
    """List the folders that ``save_epoch`` has written, from oldest to newest."""
    return sorted(metadata.parent for metadata in out.glob(f"{EPOCH}/{METADATA}"))


def load_weights(path: Path, model: nn.Module) -> None:
    """Load a saved epoch's weights into a model; raise ValueError if they do not fit."""
    read_metadata(path)
    with explaining(path, "an epoch"):
        load_tensors(path, named_weights(model, all_names=True))


def load_average(out: Path, count: int, model: nn.Module) -> None:
    """Load the average of the last ``count`` saved epochs into a model (§6.1).

    Raises ValueError if there are fewer epochs, or if the weights of an epoch do not fit.
    """
    epochs = saved_epochs(out)
    if not 1 <= count <= len(epochs):
        raise ValueError(f"{out} contains {len(epochs)} epochs, so {count} cannot be averaged")
    states = []
    for path in epochs[-count:]:
        load_weights(path, model)
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    model.load_state_dict(average_weights(states))


def let_replace(out: Path) -> None:
    """Rename the newest checkpoint, so that it is kept until a new run has saved its first one."""
    folder = find_checkpoint(out)
    if folder and folder.name != REPLACEABLE:
        folder.rename(folder.with_name(REPLACEABLE))


def metadata_of(state: TrainState) -> dict[str, Any]:
    """Return all state that the next step needs, except tensors; every process must call this.

    A step's random numbers depend only on the step's number.
    """
    world = f", {state.world.size} processes" if state.world.size > 1 else ""
    return {
        **state.pipeline.metadata(),
        "data": state.task.checksum,
        "step": state.step,
        "seconds": dict(state.seconds),
        "machine": describe_machine(state.losses.device.type) + world,
        "history": list(state.history),
        "losses": finite_losses(state).tolist(),
    }


def restore(state: TrainState, checkpoint: Checkpoint) -> None:
    """Load the weights, the moments and the progress from a checkpoint into a new state.

    Raises ValueError if the checkpoint is for a different kind of pipeline or different data.
    """
    metadata = checkpoint.metadata
    if metadata["data"] != state.task.checksum:
        raise ValueError(
            f"{checkpoint.folder} comes from training on different data: choose another folder, or "
            "train again"
        )
    with explaining(checkpoint.folder, state.pipeline.what):
        weights = named_weights(state.pipeline.model, all_names=True)
        load_tensors(checkpoint.folder, weights | named_moments(state))
    state.step = metadata["step"]
    state.seconds = metadata["seconds"]
    state.history = metadata["history"]
    if state.world.is_main:  # the sum over all processes is what it was
        state.losses += torch.as_tensor(metadata["losses"]).to(state.losses)
    save_epoch(state, checkpoint.folder.parent)  # the process may have been killed before it


def finite_losses(state: TrainState) -> Tensor:
    """Sum and check the losses since the last measurement; every process must call this."""
    losses = state.world.total(state.losses)
    check_finite("training loss", losses[0].item(), state)
    return losses


def check_finite(name: str, value: float, state: TrainState) -> None:
    """Raise ValueError, naming the number and the step, if the number is nan or infinite."""
    if not math.isfinite(value):
        raise ValueError(
            f"the {name} is {value} at step {state.step}: start again with a lower learning rate; "
            "earlier checkpoints are unchanged"
        )


@contextmanager
def locked(out: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock a folder against a second training run, and create the folder if it is missing.

    If another process is training there, wait until it is done, or raise ValueError.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / LOCK).touch()  # where it cannot be written, FileLock says that another process holds it
    try:
        with FileLock(out / LOCK, timeout=-1 if wait else 0):
            yield
    except Timeout:
        raise ValueError(
            f"another process is training in {out}: stop it, or choose another folder with --out"
        ) from None
