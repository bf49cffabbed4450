"""Train a language model for an experiment, and describe the run."""

import platform
from collections.abc import Callable

import torch
from torch import nn

from course_lib.records.results import Entry
from course_lib.tasks.language_model import LanguageModel
from course_lib.trainer.hardware import describe_machine
from course_lib.trainer.loop import fit
from course_lib.trainer.task import TrainState


class Unmeasured(LanguageModel):
    """A task without measurements, because the experiment measures after the last step."""

    def is_measured(self, step: int) -> bool:
        """Return False after every step."""
        return False


def fit_language_model(
    task: LanguageModel, build: Callable[[int], nn.Module]
) -> tuple[TrainState, Entry]:
    """Build a model for the task's characters, train it, and describe the run."""
    torch.manual_seed(task.pipeline.config.seed)
    state = fit(task, build(len(task.text.characters)))
    return state, described(state)


def described(state: TrainState) -> Entry:
    """Describe a training run: its parameters, minutes and computer."""
    parameters = state.pipeline.model.parameters()
    return {
        "parameters": sum(parameter.numel() for parameter in parameters),
        "minutes": {clock: seconds / 60 for clock, seconds in state.seconds.items()},
        **computer(),
    }


def computer() -> Entry:
    """Name this computer and its version of Python."""
    return {"machine": describe_machine("cpu"), "python": platform.python_version()}
