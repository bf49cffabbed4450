"""What a training is of: a pipeline that learns, and a task that says how (§5)."""

import math
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from course_lib.data_parallel import split_batch, token_loss_scale
from course_lib.trainer.distributed import World
from course_lib.training import ADAM


@dataclass(frozen=True)
class Pipeline:
    """A model, what turns text into its ids and back, and the configuration of both."""

    what: ClassVar[str]  #: for people, such as "a translator of sentences"
    config_class: ClassVar[type]  #: a dataclass; all fields have defaults, ``seed`` is among them
    model_class: ClassVar[type[nn.Module]]
    tokenizer_class: ClassVar[type]  #: makes it again from ``vocabulary()``

    model: nn.Module
    tokenizer: Any
    config: Any

    @classmethod
    def new(cls, config: Any, tokenizer: Any) -> Self:
        """Build the model that fits a tokenizer: the seed decides the first weights."""
        torch.manual_seed(config.seed)
        return cls(cls.model_class(config.of_model(len(tokenizer))), tokenizer, config)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """Build it from what ``facts`` returned."""
        config = cls.config_class(**facts["config"])
        return cls.new(config, cls.tokenizer_class(facts["tokenizer"]))

    def facts(self) -> dict[str, Any]:
        """Return all but the weights: numbers, texts, and lists and dicts of them."""
        return {"config": asdict(self.config), "tokenizer": self.vocabulary()}

    def vocabulary(self) -> str:
        """Return the text from which ``tokenizer_class`` makes the tokenizer again."""
        return self.tokenizer.to_json()

    @property
    def device(self) -> torch.device:
        """Say where the model is."""
        return next(self.model.parameters()).device


class Task(ABC):
    """Say how a pipeline is trained: on what, to which loss, at which rate, and how it is scored.

    Whatever is random in a step follows from the seed and the number of the step, so a training
    that goes on after a stop makes the very steps that it would have made.

    Args:
        config: All hyperparameters.
        data: The folder of the corpus; what COURSE_DATA names unless given.
        pipeline: What to go on with; a new one unless given.
    """

    kind: ClassVar[type[Pipeline]]
    measures_bfloat16: ClassVar[bool] = False  #: whether it is taken where it is faster
    keep_last: ClassVar[int] = 0  #: of so many measurements the weights are kept, to be averaged
    name: ClassVar[str]  #: by which the command line knows it
    takes: ClassVar[str]  #: how long the training takes, for people
    sizes: ClassVar[dict[str, dict[str, Any]]]  #: what differs from the defaults; the usual first
    settings: ClassVar[dict[str, dict[str, Any]]]  #: hyperparameters with an option, for argparse
    named: ClassVar[str]  #: the one of them that names the folder
    threads: ClassVar[int | None] = None  #: how many compute unless asked for; None for all
    verb: ClassVar[str] = "translate"  #: the command that uses what was trained
    writing: ClassVar[dict[str, dict[str, Any]]]  #: its options
    evaluating: ClassVar[dict[str, dict[str, Any]]] = {}  #: those of ``course evaluate``

    clip_norm: float = math.inf  #: the largest norm that all gradients together may have
    pipeline: Pipeline
    batches: Callable[[int], tuple[Tensor, ...]]  #: of a step, the same one for all processes
    steps: int  #: the last step
    checksum: int  #: other training data would change it

    @abstractmethod
    def __init__(self, config: Any, data: Path | str | None, pipeline: Any) -> None:
        """Read the data, and make a new pipeline unless one is given."""

    def optimizer(self) -> torch.optim.Optimizer:
        """Make a new optimizer of the model's parameters: Adam, with the paper's numbers."""
        return torch.optim.Adam(self.pipeline.model.parameters(), fused=True, **ADAM)

    def share(self, step: int, rank: int, size: int) -> tuple[tuple[Tensor, ...], float]:
        """Return a process's part of the batch of a step, and the weight of its mean loss.

        Who gets nothing, because there are fewer rows than processes, gets a row of weight 0: the
        others wait for its gradients.
        """
        whole = self.batches(step)
        if size == 1:
            return whole, 1.0
        tokens = self.predictions(whole)
        rows = split_batch(range(len(tokens)), rank, size)
        weight = token_loss_scale(int(tokens[rows].sum()), int(tokens.sum()), size)
        return tuple(part[rows or [0]] for part in whole), weight

    def predictions(self, batch: tuple[Tensor, ...]) -> Tensor:
        """Count the tokens of each row that the loss is of: all but bos and padding. ``(B,)``."""
        return (batch[-1][:, 1:] != self.pipeline.tokenizer.pad_id).sum(dim=1)

    @abstractmethod
    def measure(self, pipeline: Any, step: int) -> dict[str, float]:
        """Measure on val; ``"val_loss"`` is part of it."""

    def engine(self) -> nn.Module:
        """Return the module whose forward pass a step calls, and processes share."""
        return self.pipeline.model

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""
        return self.pipeline.config.rate(step)

    def is_measured(self, step: int) -> bool:
        """Tell whether it is one of every so many steps, or the last."""
        return step % self.pipeline.config.val_every == 0 or step == self.steps

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the mean loss of a batch: what the model makes of it, unless a task says more."""
        return model(*batch)

    @classmethod
    def folder_name(cls, config: Any, size: str) -> str:
        """Name the folder of a training; another seed, another folder."""
        return f"{cls.name}-{size}-{getattr(config, cls.named)}-seed{config.seed}"

    @staticmethod
    @abstractmethod
    def write(pipeline: Any, options: Namespace) -> str:
        """Translate a text, or go on with one."""

    @staticmethod
    @abstractmethod
    def evaluate(pipeline: Any, options: Namespace) -> dict[str, Any]:
        """Measure what was trained; print it, and return what a record keeps of it."""


@dataclass
class TrainState:
    """Hold all that changes while something is trained."""

    task: Task
    engine: nn.Module  #: what a step calls: the model, or what shares it out among processes
    optimizer: torch.optim.Optimizer
    world: World = field(default_factory=World)
    sharded: bool = False  #: whether no process holds all of the weights
    accumulate: int = 1  #: micro-batches of a step in each process
    step: int = 0  #: the last one made
    seconds: dict[str, float] = field(default_factory=lambda: {"wall": 0.0, "cpu": 0.0})
    history: list[dict[str, float]] = field(default_factory=list)  #: one for each measurement
    losses: Tensor = field(default_factory=partial(torch.zeros, 2))
    # (2,): this process's part of the sum and number of losses since the last measurement

    @property
    def pipeline(self) -> Any:
        """Return what learns, of the task's ``kind``."""
        return self.task.pipeline
