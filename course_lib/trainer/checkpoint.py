"""Keep a training on disk, whole or not at all: tensors as safetensors, all else as JSON.

A checkpoint is a folder. Every process writes a file of tensors, whether it has all weights or a
shard of them; any number of processes goes on. Nothing in it is code.
"""

import json
import logging
import shutil
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor
from torch import distributed as dist

from course_lib.atomic_write import write_whole
from course_lib.trainer.distributed import World

TENSORS = "*.safetensors"
FACTS = "facts.json"  # written last: a folder without it is half a checkpoint, and plays no part
FORMAT = "course_lib checkpoint 4"
AGAIN = "move it away and train again"
QUOTED = 200  # characters of somebody else's words in an error


def save_checkpoint(
    folder: Path, facts: dict[str, Any], tensors: dict[str, Tensor], world: World | None = None
) -> None:
    """Write a checkpoint; killed at any moment, a process leaves all of it or half of one.

    Args:
        folder: A new one, or what is to be replaced.
        facts: Numbers, texts, and lists and dicts of them.
        tensors: By name, none of which shares memory with another; shards among several processes.
        world: The processes, all of which must call; this one alone unless given.

    Raises:
        OSError: If it cannot be written.
    """
    world = world or World()
    if world.is_main:
        if folder.exists():
            remove_checkpoint(folder)
        folder.mkdir(parents=True)
    world.wait()
    try:
        with _lent() as checkpoint:
            writer = checkpoint.HuggingFaceStorageWriter(str(folder), save_distributed=True)
            checkpoint.save(tensors, storage_writer=writer, no_dist=world.size == 1)
    except ValueError as error:  # so it calls a disk that is full
        raise OSError(f"{folder} could not be written: {error}") from None
    if world.is_main:
        facts = {"format": FORMAT, **facts}
        kept = facts | {"checksums": checksums(folder, facts)}
        write_whole(folder / FACTS, json.dumps(kept, ensure_ascii=False, allow_nan=False))
    world.wait()


def remove_checkpoint(folder: Path) -> None:
    """Remove a checkpoint, its facts first of all: half a checkpoint is none."""
    (folder / FACTS).unlink(missing_ok=True)
    shutil.rmtree(folder)


def read_facts(folder: Path) -> dict[str, Any]:
    """Read all of a checkpoint that is no tensor, and compare the checksums of it and of what is.

    Raises:
        ValueError: If it is no checkpoint of this course, cut off, or changed.
    """
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no checkpoint {folder}; train one first") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / FACTS} is cut off ({first_line(error)}); {AGAIN}") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(
            f"{folder} is no checkpoint of this course ({FORMAT!r} is missing); {AGAIN}"
        )
    if facts.pop("checksums", None) != checksums(folder, facts):
        raise ValueError(f"{folder} was changed since it was written; {AGAIN}")
    return facts


def load_tensors(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Fill tensors, whole ones or shards, with those of a checkpoint, whoever wrote it.

    A tensor may have several names, as tied weights have. The checkpoint needs one of them.

    Raises:
        ValueError: If one is not kept there, or has another shape.
    """
    with _lent() as checkpoint:
        reader = checkpoint.HuggingFaceStorageReader(str(folder))
        kept = reader.read_metadata().state_dict_metadata
        names: dict[int, str] = {}
        for name, tensor in tensors.items():
            if names.setdefault(id(tensor), name) not in kept:
                names[id(tensor)] = name
        wanted = {name: tensors[name] for name in names.values()}
        checkpoint.load(wanted, storage_reader=reader, no_dist=not dist.is_initialized())


@contextmanager
def _lent() -> Iterator[Any]:
    """Lend torch's checkpoints without their warnings; their error is not even an ``Exception``."""
    from torch.distributed import checkpoint  # half a second: only who needs it waits

    logging.disable()  # torch logs a traceback of what is said in a sentence here
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield checkpoint
    except checkpoint.CheckpointException as error:
        reason, _ = next(iter(error.failures.values()))
        raise ValueError(first_line(reason)) from None
    except SafetensorError as error:
        raise ValueError(first_line(error)) from None
    finally:
        logging.disable(logging.NOTSET)


def checksums(folder: Path, facts: dict[str, Any]) -> dict[str, int]:
    """Add up the bytes of every file of tensors, and of the facts."""
    sums = {path.name: zlib.crc32(path.read_bytes()) for path in sorted(folder.glob(TENSORS))}
    return sums | {FACTS: zlib.crc32(json.dumps(facts).encode())}


def first_line(error: BaseException) -> str:
    """Quote the beginning of an error: one line, and not all of a long one."""
    return str(error).partition("\n")[0][:QUOTED]


@contextmanager
def explaining(path: Path, what: str) -> Iterator[None]:
    """Say in one sentence that what was read at ``path`` is no checkpoint of ``what``.

    Raises:
        ValueError: If a name is missing, a value is of another kind, or a shape does not fit.
    """
    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{path} is no checkpoint of {what}; take another folder, or {AGAIN} "
            f"({type(error).__name__}: {first_line(error)})"
        ) from None
