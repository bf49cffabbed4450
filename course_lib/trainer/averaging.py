"""Save the weights of the last measurements, and average them (§5.2, §6.1)."""

from collections.abc import Container
from pathlib import Path

from torch import nn

from course_lib.batching import average_weights
from course_lib.trainer.checkpoint import (
    METADATA,
    explaining,
    load_tensors,
    read_metadata,
    remove_checkpoint,
    save_checkpoint,
)
from course_lib.trainer.distributed import World

EPOCH = "epoch-" + 4 * "[0-9]"  # the folders of weights, by their epochs


def save_epoch(folder: Path, number: int, model: nn.Module, world: World | None = None) -> None:
    """Write the weights after a measurement, unless they are there; all processes must call."""
    path = folder / f"epoch-{number:04d}"
    if not (path / METADATA).exists():
        save_checkpoint(path, {}, dict(model.named_parameters()), world)


def saved_epochs(folder: Path) -> list[Path]:
    """List what ``save_epoch`` wrote, the oldest first, without halves."""
    return sorted(metadata.parent for metadata in Path(folder).glob(f"{EPOCH}/{METADATA}"))


def remove_epochs(folder: Path, but: Container[int]) -> None:
    """Remove the saved epochs of a folder, but not those with these numbers."""
    for path in saved_epochs(folder):
        if int(path.name.removeprefix("epoch-")) not in but:
            remove_checkpoint(path)


def load_weights(path: Path, model: nn.Module) -> None:
    """Put the weights of a saved epoch into a model.

    Raises ValueError if they are damaged, or of another model.
    """
    read_metadata(path)
    with explaining(path, "an epoch"):
        load_tensors(path, dict(model.named_parameters(remove_duplicate=False)))


def load_average(folder: Path, count: int, model: nn.Module) -> None:
    """Put the average of the last ``count`` saved epochs of a folder into a model.

    Raises ValueError if there are fewer, or one is damaged or of another model.
    """
    epochs = saved_epochs(folder)
    if not 1 <= count <= len(epochs):
        raise ValueError(f"{folder} keeps {len(epochs)} epochs; {count} cannot be averaged")
    states = []
    for path in epochs[-count:]:
        load_weights(path, model)
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    model.load_state_dict(average_weights(states))
