"""What is asked of chapter 18's groups: every parameter that learns, once, in the right one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import by_name, refuses, value_trial
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trials.gpt_formulas import CONFIG
from course_lib.gpt import GPT

DECAYS, RESTS = "decay", "do not decay"
ADAMW = 0.01  # torch.optim.AdamW's own weight decay


class Odd(nn.Module):
    """Hold parameters whose names say little: a kernel, a scale, a bias that is a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Conv1d(2, 3, 4)
        self.scale = nn.Parameter(torch.ones(5))
        self.warmth = nn.Parameter(torch.ones(()))
        self.relative_bias = nn.Parameter(torch.ones(2, 3))
        self.rows = nn.EmbeddingBag(4, 2)


def frozen() -> nn.Module:
    """Build a GPT of one layer whose tables do not learn any more."""
    model = GPT(replace(CONFIG, num_layers=1))
    for parameter in (model.embedding.weight, model.positions.weight, model.norm.bias):
        parameter.requires_grad_(False)
    return model


def groups_of(answer: Any) -> list[dict]:
    """Return two groups.

    Raises:
        TypeError: If something else came out.
    """
    held = list(answer) if isinstance(answer, list | tuple) else []
    if len(held) != 2 or not all(isinstance(g, dict) and "params" in g for g in held):
        shown = f"a list of {len(held)}" if held else describe(answer)
        raise TypeError(f"two groups with 'params' and 'weight_decay' are due, not {shown}")
    return [{**group, "params": list(group["params"])} for group in held]


def sorted_by(candidate: Callable, build: Callable[[], nn.Module]) -> dict[str, str]:
    """Name the parameters of both groups, as often as they stand there."""
    model = build()
    names = {id(parameter): name for name, parameter in by_name(model).items()}
    groups = zip((DECAYS, RESTS), groups_of(candidate(model, 0.1)), strict=True)
    return {
        kind: ", ".join(sorted(names.get(id(p), "a stranger") for p in group["params"]))
        for kind, group in groups
    }


def right(build: Callable[[], nn.Module]) -> dict[str, str]:
    """Sort by the shape."""
    learns = {name: p.ndim > 1 for name, p in by_name(build()).items() if p.requires_grad}
    kinds = {DECAYS: True, RESTS: False}
    return {
        kind: ", ".join(sorted(name for name, matrix in learns.items() if matrix is wanted))
        for kind, wanted in kinds.items()
    }


def strengths(candidate: Callable) -> dict[str, Any]:
    """Look how much each group will decay; where it says nothing, as much as in AdamW."""
    model = GPT(replace(CONFIG, num_layers=1))
    shown = {}
    for asked in (0.3, 0.0):
        groups = groups_of(candidate(model, asked))
        found = (float(group.get("weight_decay", ADAMW)) for group in groups)
        shown |= {
            f"asked for {asked}, the weight decay of those that {kind}": decay
            for kind, decay in zip((DECAYS, RESTS), found, strict=True)
        }
    return shown


def sorting(label: str, build: Callable[[], nn.Module], says: str) -> Any:
    """Ask which parameters stand where."""
    return value_trial(label, lambda c: sorted_by(c, build), right(build), says=says)


EXERCISES = (
    Exercise(
        "param_groups",
        "gpt",
        10,
        (
            sorting(
                "a GPT of one layer",
                lambda: GPT(replace(CONFIG, num_layers=1)),
                "Two groups: what has two axes or more, embedding and positions among it, and "
                "then the rest. Each parameter stands in one of them, once, shared ones too.",
            ),
            sorting(
                "parameters of other names and shapes",
                Odd,
                "The number of axes decides, not the name, nor the kind of module.",
            ),
            sorting(
                "parameters that do not learn",
                frozen,
                "What does not learn (`requires_grad` is false) stands in no group.",
            ),
            value_trial(
                "a look at the strength",
                strengths,
                {
                    f"asked for {asked}, the weight decay of those that {kind}": decay
                    for asked in (0.3, 0.0)
                    for kind, decay in ((DECAYS, asked), (RESTS, 0.0))
                },
                says="The first group has the strength that was asked for, the second 0, written "
                "down: AdamW puts 0.01 where nothing stands.",
            ),
            value_trial(
                "a strength below 0",
                lambda candidate: {"it raises": refuses(candidate, Odd(), -0.1)},
                {"it raises": "a ValueError"},
                says="A weight decay below 0 is a ValueError.",
            ),
        ),
        (
            "`model.parameters()` yields each parameter once, shared ones too. Which of them "
            "learn, and what tells a matrix from a gain or a bias?",
            '`parameter.dim() >= 2`, and the rest. A group is a dict with `"params"` and '
            '`"weight_decay"`; the second group\'s is 0.0, and is written down.',
        ),
    ),
)
