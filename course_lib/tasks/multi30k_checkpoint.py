"""What is kept of a training: written by one process in a file, by several in pieces."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data import Tokenizer
from course_lib.tasks.multi30k import RealConfig, RealTranslator
from course_lib.trainer.batch_sampler import TokenBatches
from course_lib.trainer.checkpoint import explaining, load_checkpoint, save_checkpoint
from course_lib.trainer.distributed import World, job
from course_lib.trainer.machine import describe_machine
from course_lib.trainer.results import note_minutes, write_log
from course_lib.trainer.sharded_checkpoint import (
    find_sharded,
    load_sharded,
    read_facts,
    remove_sharded,
    save_sharded,
)
from course_lib.transformer import Transformer

LAST = "last.pt"  # the checkpoint that one process goes on from
WHAT = "a translator of sentences"  # it is of


@dataclass
class TrainState:
    """Hold all that changes while a translator is trained.

    Args:
        translator: Its model learns.
        engine: What is called in training: the model, or what shares it out among processes.
        optimizer: Adam, with its moments.
        batches: What it learns from.
        world: The processes that train it.
        sharded: Whether no process holds all of the weights.
        step: The last step made.
        seconds: Time spent so far, over all starts: ``"wall"`` and ``"cpu"`` (of all threads).
        history: One dict for each epoch; rank 0 keeps it.
        losses: This process's part of the sum and of the number of losses of this epoch so far.
            Shape ``(2,)``.
    """

    translator: RealTranslator
    engine: nn.Module
    optimizer: torch.optim.Optimizer
    batches: TokenBatches
    world: World = field(default_factory=World)
    sharded: bool = False
    step: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"wall": 0.0, "cpu": 0.0})
    history: list[dict[str, float]] = field(default_factory=list)
    losses: Tensor = field(default_factory=lambda: torch.zeros(2))


def is_kept(out: Path) -> bool:
    """Tell whether a folder keeps a training."""
    return (out / LAST).exists() or find_sharded(out) is not None


def kept_translator(out: Path) -> tuple[RealTranslator, dict[str, Any]]:
    """Read the translator that a folder keeps, and the rest of its checkpoint.

    Raises:
        ValueError: If there is none, or the checkpoint is of something else.
    """
    folder = find_sharded(out)
    content = load_checkpoint(out / LAST) if folder is None or (out / LAST).exists() else None
    facts = read_facts(folder) if folder else None
    with explaining(out / LAST if content else folder, WHAT):
        if content and (facts is None or content["step"] > facts["step"]):
            return load_translator(content), content
    with explaining(folder, WHAT):
        translator = _unlearned(facts)
        load_sharded(folder, translator.model)
    return translator, facts


def load_translator(content: dict[str, Any]) -> RealTranslator:
    """Build the translator that a checkpoint of one process holds."""
    translator = _unlearned(content)
    translator.model.load_state_dict(content["model"])
    return translator


def _unlearned(facts: dict[str, Any]) -> RealTranslator:
    """Build a translator, all but its weights."""
    config = RealConfig(**facts["config"])
    tokenizer = Tokenizer(facts["tokenizer"])
    return RealTranslator(Transformer(config.of_model(len(tokenizer))), tokenizer, config)


def facts_of(run: TrainState) -> dict[str, Any]:
    """Gather all that the next step depends on but tensors; all processes must ask.

    Dropout needs nothing but the step's number.
    """
    world = f", {run.world.size} processes" if run.world.size > 1 else ""
    return {
        "config": asdict(run.translator.config),
        "tokenizer": run.translator.tokenizer.to_json(),
        "step": run.step,
        "job": job(),
        "seconds": dict(run.seconds),
        "machine": describe_machine(run.translator.device.type) + world,
        "history": list(run.history),
        "losses": run.world.total(run.losses).tolist(),
    }


def save_run(run: TrainState, out: Path) -> None:
    """Write the checkpoint, and the whole log anew: nothing stands in it twice."""
    note_minutes(run.history, run.seconds)  # an epoch is saved as soon as it has ended
    facts = facts_of(run)
    if run.world.size == 1:
        tensors = dict(
            model=run.translator.model.state_dict(), optimizer=run.optimizer.state_dict()
        )
        save_checkpoint(out / LAST, facts | tensors)
        remove_sharded(out)
    else:
        save_sharded(out, run.step, facts, run.translator.model, run.optimizer, run.world)
    if run.world.is_main:
        if run.world.size > 1:
            (out / LAST).unlink(missing_ok=True)
        write_log(out / "log.txt", run.translator.config, run.history)


def restore(run: TrainState, out: Path, kept: dict[str, Any]) -> None:
    """Put back all that ``kept_translator`` read but the weights of the model; they are there.

    Raises:
        ValueError: If the checkpoint is of something else, or one process wrote it and the
            weights are to be sharded.
    """
    alone = "model" in kept  # it was one process that kept it
    if run.sharded and alone:
        raise ValueError(f"{out / LAST} was written by one process: go on with it unsharded")
    with explaining(out / LAST if alone else find_sharded(out), WHAT):
        if alone:
            run.optimizer.load_state_dict(kept["optimizer"])
        else:
            load_sharded(find_sharded(out), run.translator.model, run.optimizer)
        run.step = kept["step"]
        run.seconds = kept["seconds"]
        run.history = kept["history"]
        if run.world.is_main:  # the sum over all processes is what it was
            run.losses += torch.as_tensor(kept["losses"]).to(run.losses)
