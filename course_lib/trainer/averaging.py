"""Keep the weights of the last measurements, and average them (§5.2, §6.1)."""

from pathlib import Path

from torch import nn

from course_lib.batching import average_weights
from course_lib.trainer.checkpoint import (
    FACTS,
    explaining,
    load_tensors,
    read_facts,
    remove_checkpoint,
    save_checkpoint,
)

EPOCH = "epoch-" + 4 * "[0-9]"  # the folders of weights, by their epochs


def keep_weights(folder: Path, number: int, model: nn.Module, last: int) -> None:
    """Write the weights after a measurement, and remove those of all but the last few."""
    save_checkpoint(folder / f"epoch-{number:04d}", {}, dict(model.named_parameters()))
    for old in kept_weights(folder)[:-last]:
        remove_checkpoint(old)


def kept_weights(folder: Path) -> list[Path]:
    """List what ``keep_weights`` wrote, the oldest first, halves left out."""
    return sorted(facts.parent for facts in Path(folder).glob(f"{EPOCH}/{FACTS}"))


def load_weights(path: Path, model: nn.Module) -> None:
    """Put the weights after a measurement into a model.

    Raises:
        ValueError: If they are damaged, or of another model.
    """
    read_facts(path)
    with explaining(path, "an epoch"):
        load_tensors(path, dict(model.named_parameters(remove_duplicate=False)))


def load_average(folder: Path, count: int, model: nn.Module) -> None:
    """Put the average of the last ``count`` epochs kept in a folder into a model.

    Raises:
        ValueError: If fewer are kept, or one is damaged or of another model.
    """
    kept = kept_weights(folder)
    if not 1 <= count <= len(kept):
        raise ValueError(f"{folder} keeps {len(kept)} epochs; {count} cannot be averaged")
    states = []
    for path in kept[-count:]:
        load_weights(path, model)
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    model.load_state_dict(average_weights(states))
