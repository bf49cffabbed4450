"""What a training is of: a pipeline that learns, and a task that says how (§5)."""

import math
from abc import ABC, abstractmethod
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from course_lib.trainer.distributed import World


class Pipeline(Protocol):
    """A model, and what turns text into its ids and back: all that a checkpoint has to hold.

    Attributes:
        what: What it is, for people, such as ``"a translator of sentences"``.
        config_class: A dataclass of hyperparameters, all with defaults, ``seed`` among them.
        model: It learns.
        config: The hyperparameters of model and training.
    """

    what: ClassVar[str]
    config_class: ClassVar[type]
    model: nn.Module
    config: Any

    def facts(self) -> dict[str, Any]:
        """Return all but the weights: numbers, texts, and lists and dicts of them."""
        ...

    @classmethod
    def unlearned(cls, facts: dict[str, Any]) -> "Pipeline":
        """Build it from its facts, with weights that have learned nothing."""
        ...


class Task(ABC):
    """Say how a pipeline is trained: on what, to which loss, at which rate, and how it is scored.

    Whatever is random in a step follows from the seed and the number of the step, so a training
    that goes on after a stop makes the very steps that it would have made.

    Attributes:
        kind: The class of its pipelines.
        keep_last: Of how many last measurements the weights are kept, to be averaged.
        clip_norm: The largest norm that all gradients together may have.
        pipeline: What learns.
        steps: The last step.
        checksum: A number that other training data would change.
    """

    kind: ClassVar[type[Pipeline]]
    keep_last: ClassVar[int] = 0
    clip_norm: float = math.inf
    pipeline: Pipeline
    steps: int
    checksum: int

    @abstractmethod
    def __init__(self, config: Any, data: Path | str | None, pipeline: Pipeline | None) -> None:
        """Read the data, and make a new pipeline unless one is given."""

    @abstractmethod
    def optimizer(self) -> torch.optim.Optimizer:
        """Make a new optimizer of the model's parameters."""

    @abstractmethod
    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""

    @abstractmethod
    def share(self, step: int, rank: int, size: int) -> tuple[tuple[Tensor, ...], float]:
        """Return a process's part of the batch of a step, and the weight of its mean loss."""

    @abstractmethod
    def backward(self, engine: nn.Module, batch: tuple[Tensor, ...], weight: float) -> Tensor:
        """Compute a mean loss, and add its gradients times the weight; return it, detached."""

    @abstractmethod
    def is_measured(self, step: int) -> bool:
        """Tell whether something is measured after a step; after the last one, it should be."""

    @abstractmethod
    def measure(self, pipeline: Pipeline, step: int) -> dict[str, float]:
        """Measure on val; ``"val_loss"`` is part of it."""


class Application(Task):
    """A task that the command line offers, with what is done with a pipeline that was trained.

    Attributes:
        name: By which the command line knows it.
        takes: How long the training takes, for people.
        sizes: Hyperparameters that differ from the defaults, by the name of a size; the usual
            size first.
        settings: Hyperparameters that have an option of their own, described for ``argparse``.
        named: Those of them that the name of the folder holds.
        recorded_by: What tells two entries of a record apart.
        threads: How many compute unless asked for; ``None`` for all.
        verb: The command that uses what was trained.
        writing: Its options.
        evaluating: The options of ``course evaluate``.
    """

    name: ClassVar[str]
    takes: ClassVar[str]
    sizes: ClassVar[dict[str, dict[str, Any]]]
    settings: ClassVar[dict[str, dict[str, Any]]]
    named: ClassVar[tuple[str, ...]]
    recorded_by: ClassVar[tuple[str, ...]]
    threads: ClassVar[int | None] = None
    verb: ClassVar[str] = "translate"
    writing: ClassVar[dict[str, dict[str, Any]]]
    evaluating: ClassVar[dict[str, dict[str, Any]]] = {}

    @classmethod
    def folder_name(cls, config: Any, size: str) -> str:
        """Name the folder of a training; another seed, another folder."""
        which = "-".join(getattr(config, name) for name in cls.named)
        return f"{cls.name}-{size}-{which}-seed{config.seed}"

    @classmethod
    def settled_here(cls, chosen: dict[str, Any], kept: Any, options: Namespace) -> dict[str, bool]:
        """Settle what nobody chose: as it was kept, or by measuring this machine."""
        return {}

    @staticmethod
    @abstractmethod
    def write(pipeline: Any, options: Namespace) -> str:
        """Translate a text, or go on with one."""

    @staticmethod
    @abstractmethod
    def evaluate(pipeline: Any, options: Namespace) -> dict[str, Any]:
        """Measure what was trained; print it, and return it."""

    @staticmethod
    @abstractmethod
    def entry(
        pipeline: Any, content: dict[str, Any], found: dict[str, Any], options: Namespace
    ) -> dict[str, Any]:
        """Return for a record what was found, and all that somebody needs to repeat it."""

    @classmethod
    def record_key(cls, entry: dict[str, Any]) -> list[Any]:
        """Return what tells two entries of a record apart."""
        return [entry[name] for name in cls.recorded_by]


@dataclass
class TrainState:
    """Hold all that changes while something is trained.

    Args:
        task: What is trained; its model learns.
        engine: What is called in training: the model, or what shares it out among processes.
        optimizer: With its moments.
        world: The processes that train it.
        sharded: Whether no process holds all of the weights.
        accumulate: Micro-batches of a step in each process.
        step: The last step made.
        seconds: Time spent so far, over all starts: ``"wall"`` and ``"cpu"`` (of all threads).
        history: One dict for each measurement; rank 0 keeps it.
        losses: This process's part of the sum and of the number of losses since the last
            measurement. Shape ``(2,)``.
    """

    task: Task
    engine: nn.Module
    optimizer: torch.optim.Optimizer
    world: World = field(default_factory=World)
    sharded: bool = False
    accumulate: int = 1
    step: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"wall": 0.0, "cpu": 0.0})
    history: list[dict[str, float]] = field(default_factory=list)
    losses: Tensor = field(default_factory=lambda: torch.zeros(2))

    @property
    def pipeline(self) -> Pipeline:
        """Return what learns."""
        return self.task.pipeline
