"""The weights of the last epochs, kept on disk to be averaged (§6.1)."""

from pathlib import Path

from torch import Tensor

from course_lib.batching import average_weights
from course_lib.trainer.checkpoint import explaining, load_checkpoint, save_checkpoint


def keep_weights(folder: Path, epoch: int, weights: dict[str, Tensor], last: int) -> None:
    """Write the weights of an epoch, and remove those of all but the last few.

    Args:
        folder: Where.
        epoch: Part of the file's name.
        weights: A ``state_dict``.
        last: How many files stay, from 1.
    """
    save_checkpoint(folder / f"epoch-{epoch:04d}.pt", {"epoch": epoch, "model": weights})
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
    return average_weights([_weights_in(path) for path in files[-count:]])


def _weights_in(path: Path) -> dict[str, Tensor]:
    """Read the weights of one epoch."""
    content = load_checkpoint(path)
    with explaining(path, "an epoch"):
        return content["model"]
