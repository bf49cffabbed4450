"""A checkpoint in pieces: each process writes its own, any number of processes goes on.

Torch's part of it takes half a second to import: only who saves or loads waits for it.
"""

import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch import distributed as dist
from torch.optim import Optimizer

from course_lib.atomic_write import write_whole
from course_lib.trainer.distributed import World

NAME = "last-" + 7 * "[0-9]"  # of their folders, a step; all others are somebody else's
FACTS = "facts.json"  # written last: a folder without it is half a checkpoint, and plays no part
FORMAT = "course_lib pieces 1"


def save_sharded(
    out: Path,
    step: int,
    facts: dict[str, Any],
    model: nn.Module,
    optimizer: Optimizer,
    world: World,
) -> None:
    """Write a checkpoint beside the old one, each process its part, then remove the old one.

    Processes killed at any moment leave the old checkpoint or the new one whole.

    Args:
        out: The folder of checkpoints.
        step: The last step made; it names the checkpoint.
        facts: Numbers, texts, and lists and dicts of them: all that is no tensor.
        model: The model itself, shared out or not: never what ``spread`` put around it.
        optimizer: Of its parameters.
        world: All of it must call.
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
        write_whole(folder / FACTS, json.dumps({"format": FORMAT, **facts}, ensure_ascii=False))
        remove_sharded(out, but=folder)
    world.wait()


def remove_sharded(out: Path, but: Path | None = None) -> None:
    """Remove all checkpoints in pieces but one, whole ones and halves."""
    for old in out.glob(f"{NAME}/"):
        if old != but:
            (old / FACTS).unlink(missing_ok=True)  # first of all: half a checkpoint is none
            shutil.rmtree(old)


def find_sharded(out: Path) -> Path | None:
    """Return the folder of the newest whole checkpoint in pieces, or ``None``."""
    return max((facts.parent for facts in out.glob(f"{NAME}/{FACTS}")), default=None)


def read_facts(folder: Path) -> dict[str, Any]:
    """Read all of a checkpoint that is no tensor.

    Raises:
        ValueError: If it is no checkpoint of this course.
    """
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{folder / FACTS} is cut off: train again ({error})") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"{folder} is no checkpoint of this course ({FORMAT!r} is missing)")
    return facts


def load_sharded(folder: Path, model: nn.Module, optimizer: Optimizer | None = None) -> None:
    """Put a checkpoint into a model and its optimizer, whoever and how many wrote it.

    Read only what you wrote: torch keeps the table of contents as a pickle, which can run code.

    Args:
        folder: What ``find_sharded`` returned.
        model: As in ``save_sharded``; if several processes train it, all must call.
        optimizer: A new one, of its parameters; left out, the weights alone are read.
    """
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint import state_dict

    alone = not dist.is_initialized()
    with _quietly():
        if optimizer is None:
            weights = state_dict.get_model_state_dict(model)
            checkpoint.load({"model": weights}, checkpoint_id=folder, no_dist=alone)
            model.load_state_dict(weights)
            return
        weights, moments = state_dict.get_state_dict(model, optimizer)
        kept = {"model": weights, "optimizer": moments["state"]}
        checkpoint.load(kept, checkpoint_id=folder, no_dist=alone)
        new = dict(model_state_dict=weights, optim_state_dict=moments)
        state_dict.set_state_dict(model, optimizer, **new)


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """Gather the weights that ``spread`` has shared out: all for rank 0, none for the others."""
    from torch.distributed.checkpoint import state_dict

    whole = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)
    return state_dict.get_model_state_dict(model, options=whole)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep to itself what torch says to its own developers.

    Raises:
        ValueError: If a process could not read or write: torch's own is not even an ``Exception``.
    """
    from torch.distributed.checkpoint import CheckpointException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except CheckpointException as error:
        reason, _ = next(iter(error.failures.values()))
        raise ValueError(f"its pieces: {str(reason).partition(chr(10))[0]}") from None
