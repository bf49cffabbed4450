"""Keep the weights of the last measurements, and average them (§5.2, §6.1)."""

from pathlib import Path

from torch import Tensor

from course_lib.batching import average_weights
from course_lib.trainer.checkpoint import explaining, load_checkpoint, save_checkpoint


def keep_weights(folder: Path, number: int, weights: dict[str, Tensor], last: int) -> None:
    """Write the weights after a measurement, and remove those of all but the last few."""
    save_checkpoint(folder / f"epoch-{number:04d}.pt", {"epoch": number, "model": weights})
    for old in kept_weights(folder)[:-last]:
        old.unlink()


def kept_weights(folder: Path) -> list[Path]:
    """List the files that ``keep_weights`` wrote, the oldest first."""
    return sorted(Path(folder).glob("epoch-[0-9][0-9][0-9][0-9].pt"))


def average_of_last(folder: Path, count: int) -> dict[str, Tensor]:
    """Average the last ``count`` epochs kept in a folder.

    Raises:
        ValueError: If fewer are kept, or one is no file of weights.
    """
    files = kept_weights(folder)
    if not 1 <= count <= len(files):
        raise ValueError(f"{folder} keeps {len(files)} epochs; {count} cannot be averaged")
    states = []
    for path in files[-count:]:
        content = load_checkpoint(path)
        with explaining(path, "an epoch"):
            states.append(content["model"])
    return average_weights(states)
