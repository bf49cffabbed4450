"""Training tasks, the pipelines they train, and the state of a training run (§5)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sized
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from course_lib.data import Tokenizer
from course_lib.data_parallel import split_batch, token_loss_scale
from course_lib.trainer.distributed import ALONE, World
from course_lib.trainer.hardware import check_memory
from course_lib.trainer.options import TrainingConfig
from course_lib.training import ADAM


@dataclass(frozen=True)
class Pipeline(ABC):
    """A model, its tokenizer, and the configuration of both."""

    what: ClassVar[str]  #: for messages, such as "a sentence translator"
    config_class: ClassVar[type[TrainingConfig]]  #: all fields have defaults
    model_class: ClassVar[type[nn.Module]]
    tokenizer_class: ClassVar[type[Any]]  #: reads what ``vocabulary`` returns

    model: nn.Module
    tokenizer: Sized
    config: TrainingConfig

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> Self:
        """Build a pipeline from the result of ``metadata``."""
        config = cls.config_class(**metadata["config"])
        return cls.new(config, cls.tokenizer_class(metadata["tokenizer"]))

    @classmethod
    def new(cls, config: TrainingConfig, tokenizer: Sized) -> Self:
        """Build a pipeline with a new model; raise ValueError if there is not enough memory."""
        check_memory(config, len(tokenizer))
        torch.manual_seed(config.seed)
        return cls(cls.model_class(config.of_model(len(tokenizer))), tokenizer, config)

    def metadata(self) -> dict[str, Any]:
        """Return everything but the weights: numbers, strings, and lists and dicts of them."""
        return {"config": asdict(self.config), "tokenizer": self.vocabulary()}

    @abstractmethod
    def vocabulary(self) -> str:
        """Return the text from which ``tokenizer_class`` can rebuild the tokenizer."""

    @property
    def device(self) -> torch.device:
        """Return the device of the model."""
        return next(self.model.parameters()).device


P = TypeVar("P", bound=Pipeline)


class Task(ABC, Generic[P]):
    """A description of how a pipeline is trained: its data, loss, learning rate and scores.

    All random numbers in a step are determined by the seed and the step's number, so a run that was
    stopped and resumed takes the same steps as a run that was not.
    """

    name: ClassVar[str]  #: its name on the command line
    sizes: ClassVar[dict[str, dict[str, Any]]]  #: changes to the defaults; the default size first
    variant: ClassVar[str]  #: the hyperparameter whose value is part of a folder's name
    keep_last: ClassVar[int] = 0  #: how many measurements' weights are kept for averaging
    pipeline_class: type[P]

    clip_norm: float = math.inf  #: the largest norm that all gradients together may have
    pipeline: P
    batches: Callable[[int], tuple[Tensor, ...]]  #: a step's batch, the same for all processes
    rate: Callable[[int], float]  #: the learning rate of a step, from 1
    positions: float  #: average number in a batch
    steps: int  #: the last step
    val_every: int  #: steps between two measurements
    checksum: int  #: of the training data

    @abstractmethod
    def __init__(self, config: TrainingConfig, data: Path | None, pipeline: P | None) -> None:
        """Read the data from a folder or COURSE_DATA, and build a pipeline if there is none."""

    def optimizer(self) -> torch.optim.Optimizer:
        """Return a new optimizer for the model's parameters: Adam, with the paper's settings."""
        numbers: dict[str, Any] = ADAM
        return torch.optim.Adam(self.pipeline.model.parameters(), fused=True, **numbers)

    def micro_batch(self, step: int, number: int, parts: int) -> tuple[tuple[Tensor, ...], float]:
        """Return one part of a step's batch, and the weight of that part's mean loss.

        If there are fewer rows than parts, some parts consist of one row with weight 0.
        """
        batch = self.batches(step)
        if parts == 1:
            return batch, 1.0
        tokens = self.predictions(batch)
        rows = split_batch(range(len(tokens)), number, parts)
        weight = token_loss_scale(int(tokens[rows].sum()), int(tokens.sum()), parts)
        return tuple(ids[rows or [0]] for ids in batch), weight

    def predictions(self, batch: tuple[Tensor, ...]) -> Tensor:
        """Count the tokens that enter each row's loss: all but bos and padding. Shape ``(B,)``."""
        return (batch[-1][:, 1:] != Tokenizer.pad_id).sum(dim=1)

    @abstractmethod
    def measure(self, pipeline: P, step: int) -> dict[str, float]:
        """Return measurements on the validation data, including ``"val_loss"``."""

    def training_module(self) -> nn.Module:
        """Return the module that a training step calls, and that ``parallelize`` wraps."""
        return self.pipeline.model

    def is_measured(self, step: int) -> bool:
        """Return whether the validation loss is measured after this step."""
        return step % self.val_every == 0 or step == self.steps

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Return the mean loss on a batch, which by default is the output of ``model``."""
        return model(*batch)

    @classmethod
    def folder_name(cls, config: TrainingConfig, size: str) -> str:
        """Name the folder of a training run; each seed has its own."""
        return f"{cls.name}-{size}-{getattr(config, cls.variant)}-seed{config.seed}"


@dataclass
class TrainState:
    """Everything that changes during a training run."""

    task: Task
    module: nn.Module  #: the task's module, or a wrapper that distributes it among processes
    optimizer: torch.optim.Optimizer
    world: World = ALONE
    sharded: bool = False  #: whether no process holds all of the weights
    accumulate: int = 1  #: micro-batches per step in each process
    step: int = 0  #: the last completed step
    seconds: dict[str, float] = field(default_factory=lambda: {"wall": 0.0, "cpu": 0.0})
    history: list[dict[str, float]] = field(default_factory=list)  #: one for each measurement
    losses: Tensor = field(default_factory=partial(torch.zeros, 2))
    # (2,): this process's part of the sum and number of losses since the last measurement

    @property
    def pipeline(self) -> Pipeline:
        """Return the model, its tokenizer and its configuration."""
        return self.task.pipeline
