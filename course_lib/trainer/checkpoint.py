"""Checkpoints of training runs, with tensors as safetensors and everything else as JSON.

A checkpoint is a folder. Every process writes a tensor file, whether it has all weights or a
shard of them, and any number of processes can resume from a checkpoint. It contains no code.
"""

import json
import logging
import shutil
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from safetensors import SafetensorError
from torch import Tensor
from torch import distributed as dist

from course_lib.support.atomic_write import write_whole
from course_lib.support.input_checks import first_line
from course_lib.trainer.distributed import ALONE, World

TENSORS = "*.safetensors"
METADATA = "metadata.json"  # written last: a folder without it is half a checkpoint, and is ignored
FORMAT = "course_lib checkpoint 5"
AGAIN = "move it somewhere else, and train again"
EXPLAINED = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError, RuntimeError)


class Checkpoint(NamedTuple):
    """Everything in a checkpoint except its tensors."""

    folder: Path
    metadata: dict[str, Any]


def save_checkpoint(
    folder: Path, metadata: dict[str, Any], tensors: dict[str, Tensor], world: World = ALONE
) -> None:
    """Write a checkpoint, with its metadata last, so that an unfinished checkpoint is ignored.

    The metadata contain numbers, strings, and lists and dicts of them. No two tensors may share
    memory. Every process of ``world`` must call this with its shards. Raises OSError if writing
    fails.
    """
    if world.is_main:
        if folder.exists() or folder.is_symlink():
            remove_checkpoint(folder)
        folder.mkdir(parents=True)
    world.wait()
    try:
        with _torch_checkpoints() as checkpoint:
            writer = checkpoint.HuggingFaceStorageWriter(str(folder), save_distributed=True)
            checkpoint.save(tensors, storage_writer=writer, no_dist=world.size == 1)
    except ValueError as error:  # this is how torch reports a full disk
        raise OSError(f"{folder} could not be written: {error}") from None
    if world.is_main:
        metadata = {"format": FORMAT, **metadata}
        checked = metadata | {"checksums": checksums(folder, metadata)}
        write_whole(folder / METADATA, json.dumps(checked, ensure_ascii=False, allow_nan=False))
    world.wait()


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint, starting with its metadata; if it is a link, remove only the link."""
    if folder.is_symlink():
        folder.unlink()
        return
    (folder / METADATA).unlink(missing_ok=True)
    shutil.rmtree(folder)


def read_metadata(folder: Path) -> dict[str, Any]:
    """Read everything in a checkpoint except its tensors, and verify the checksums of all files.

    Raises ValueError if the checkpoint is not from this course, or was truncated or changed.
    """
    try:
        metadata = json.loads((folder / METADATA).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / METADATA} is cut off ({first_line(error)}); {AGAIN}") from None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ValueError(
            f"{folder} is not a checkpoint from this course ({FORMAT!r} is missing); {AGAIN}"
        )
    if metadata.pop("checksums", None) != checksums(folder, metadata):
        raise ValueError(f"{folder} has been changed since it was written; {AGAIN}")
    return metadata


def load_tensors(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Fill tensors, whole or sharded, from a checkpoint, however many processes wrote it.

    A tensor may have several names, as tied weights do; the checkpoint needs only one of them.

    Raises ValueError if a tensor is missing or has a different shape.
    """
    with _torch_checkpoints() as checkpoint:
        reader = checkpoint.HuggingFaceStorageReader(str(folder))
        stored = reader.read_metadata().state_dict_metadata
        names: dict[int, str] = {}
        for name, tensor in tensors.items():
            if names.setdefault(id(tensor), name) not in stored:
                names[id(tensor)] = name
        wanted = {name: tensors[name] for name in names.values()}
        checkpoint.load(wanted, storage_reader=reader, no_dist=not dist.is_initialized())


@contextmanager
def _torch_checkpoints() -> Iterator[ModuleType]:
    """Yield torch's checkpoint module; hide its warnings, and turn its errors into ValueError."""
    from torch.distributed import checkpoint  # takes half a second, so only its users wait

    logging.disable()  # torch logs a traceback of what we say in a sentence
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield checkpoint
    except checkpoint.CheckpointException as error:
        reason, _ = next(iter(error.failures.values()))
        raise ValueError(first_line(reason)) from None
    finally:
        logging.disable(logging.NOTSET)


def checksums(folder: Path, metadata: dict[str, Any]) -> dict[str, int]:
    """Compute a checksum of every tensor file, and of the metadata."""
    sums = {path.name: zlib.crc32(path.read_bytes()) for path in sorted(folder.glob(TENSORS))}
    return sums | {METADATA: zlib.crc32(json.dumps(metadata).encode())}


@contextmanager
def explaining(path: Path, what: str) -> Iterator[None]:
    """If reading ``path`` fails, raise an error saying that it is not a checkpoint of ``what``.

    Raises ValueError if a name is missing, a value has the wrong type, or a shape does not fit.
    """
    try:
        yield
    except (*EXPLAINED, SafetensorError) as error:
        raise ValueError(
            f"{path} is not a checkpoint of {what}; choose another folder, or {AGAIN} "
            f"({type(error).__name__}: {first_line(error)})"
        ) from None
