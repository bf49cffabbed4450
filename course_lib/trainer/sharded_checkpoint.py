"""A sharded checkpoint: each process writes its part, any number of processes goes on.

Torch's part of it takes half a second to import: only who saves or loads waits for it.
"""

import json
import pickle
import shutil
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import distributed as dist
from torch import nn
from torch.optim import Optimizer

from course_lib.atomic_write import write_whole
from course_lib.trainer.checkpoint import first_line
from course_lib.trainer.distributed import World

NAME = "last-" + 7 * "[0-9]"  # of their folders, a step; all others are somebody else's
FACTS = "facts.json"  # written last: a folder without it is half a checkpoint, and plays no part
FORMAT = "course_lib sharded checkpoint 2"
TRUSTED = {  # what torch's table of contents is made of, where all that is kept is tensors
    "torch.distributed.checkpoint.metadata": {
        *("ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta"),
        *("TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING"),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {"Size", "float32", "float64", "int64", "strided"},
    "pathlib": {"PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath"},
}


def save_sharded(
    out: Path,
    step: int,
    facts: dict[str, Any],
    model: nn.Module,
    optimizer: Optimizer,
    world: World,
) -> None:
    """Write a checkpoint beside the old one, each process its part, then remove the old one.

    Processes killed at any moment leave the old checkpoint or the new one whole. All must call.

    Args:
        out: The folder of checkpoints.
        step: The last step made; it names the checkpoint.
        facts: Numbers, texts, and lists and dicts of them: all that is no tensor.
        model: The model itself, sharded or not: never what ``parallelize`` put around it.
        optimizer: Of its parameters.
        world: The processes.
    """
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict

    folder = out / f"last-{step:07d}"
    with _quietly():
        weights, moments = get_state_dict(model, optimizer)
        checkpoint.save(
            {"model": weights, "optimizer": moments["state"]},
            checkpoint_id=folder,
            no_dist=not dist.is_initialized(),
        )
    if world.is_main:
        kept = {"format": FORMAT, **facts, "checksums": _checksums(folder)}
        write_whole(folder / FACTS, json.dumps(kept, ensure_ascii=False))
        remove_sharded(out, but=folder)
    world.wait()


def remove_sharded(out: Path, but: Path | None = None) -> None:
    """Remove all sharded checkpoints but one, whole ones and halves."""
    for old in out.glob(f"{NAME}/"):
        if old != but:
            (old / FACTS).unlink(missing_ok=True)  # first of all: half a checkpoint is none
            shutil.rmtree(old)


def find_sharded(out: Path) -> Path | None:
    """Return the folder of the newest whole sharded checkpoint, or ``None``."""
    return max((facts.parent for facts in out.glob(f"{NAME}/{FACTS}")), default=None)


def read_facts(folder: Path) -> dict[str, Any]:
    """Read all of a checkpoint that is no tensor.

    Raises:
        ValueError: If it is no checkpoint of this course, or was changed since it was written.
    """
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{folder / FACTS} is cut off: train again ({error})") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"{folder} is no checkpoint of this course ({FORMAT!r} is missing)")
    if facts.pop("checksums", None) != _checksums(folder):
        raise ValueError(f"{folder} was changed since it was written: move it away, train again")
    return facts


def load_sharded(folder: Path, model: nn.Module, optimizer: Optimizer | None = None) -> None:
    """Put a checkpoint into a model and a new optimizer, whoever and how many wrote it.

    Without optimizer, the weights alone are read. Of several processes, all must call.
    """
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint import state_dict

    alone = not dist.is_initialized()
    with _quietly():
        optimizers = [] if optimizer is None else [optimizer]
        weights, moments = state_dict.get_state_dict(model, optimizers)
        kept = {"model": weights, **({"optimizer": moments["state"]} if optimizers else {})}
        checkpoint.load(kept, storage_reader=_reader(folder), no_dist=alone)
        new = dict(model_state_dict=weights, optim_state_dict=moments)
        state_dict.set_state_dict(model, optimizers, **new)


def whole_weights(model: nn.Module) -> dict[str, Any]:
    """Gather the weights that were sharded: all for rank 0, none for the others."""
    from torch.distributed.checkpoint import state_dict

    whole = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)
    return state_dict.get_model_state_dict(model, options=whole)


def _checksums(folder: Path) -> dict[str, int]:
    """Add up the bytes of every file that torch has written."""
    files = sorted([*folder.glob("*.distcp"), folder / ".metadata"])
    return {file.name: zlib.crc32(file.read_bytes()) for file in files if file.exists()}


class _TrustedUnpickler(pickle.Unpickler):
    """Read a table of contents, which torch keeps as a pickle, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        """Look up what ``TRUSTED`` names."""
        if name in TRUSTED.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint")


def _reader(folder: Path) -> Any:
    """Make what reads a folder as torch does, but for the pickle."""
    from torch.distributed.checkpoint import FileSystemReader

    class Reader(FileSystemReader):
        """Read the table of contents with ``_TrustedUnpickler``."""

        def read_metadata(self, *words: Any, **options: Any) -> Any:
            """Return it, marked as torch marks it."""
            with (folder / ".metadata").open("rb") as file:
                metadata = _TrustedUnpickler(file).load()
            metadata.storage_meta.load_id = self.load_id
            return metadata

    return Reader(folder)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep to itself what torch says to its own developers.

    Its own error of reading and writing is not even an ``Exception``: it becomes a ``ValueError``.
    """
    from torch.distributed.checkpoint import CheckpointException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except CheckpointException as error:
        reason, _ = next(iter(error.failures.values()))
        raise ValueError(f"its shards: {first_line(reason)}") from None
