"""Look up exercises, their known mistakes and their correct answers in the bank."""

from bisect import bisect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from itertools import accumulate
from types import ModuleType
from typing import Any

from course_lib.exercises.checking.contents import BANK, chapters, look_up
from course_lib.exercises.checking.mistake import Mistake, course_definition, mistakes_of
from course_lib.exercises.checking.report import Stage
from course_lib.exercises.checking.trial import Trial, errors_trial, usual_settings

INPUT_CHECKS = "input checks"


@dataclass(frozen=True)
class Exercise:
    """An exercise, and how its answers are checked.

    Args:
        name: The name of the exported definition.
        minutes: How many minutes a first-time learner needs.
        core: The trials that every correct answer must pass, by stage: required arguments and
            masks, gradients and parameters. The first trial is the textbook case.
        formula: What the definition computes; explains wrong numbers in trials that say nothing.
        hints: Hints for the learner; each reveals more than the one before.
        shortcuts: Torch functions that would solve the whole exercise, with a message for each.
        extras: The trials for other options, corner cases and devices, by stage.
        rejects: Calls that raise a ValueError, as the docstring promises, without the name. They
            become an extra, and may use what the bank's module defines.
        methods: For a class, the methods that the learner writes; if empty, all of them.
        module: The module that exports it; the name of the bank's file.
    """

    name: str
    minutes: int
    core: Mapping[str, Sequence[Trial]]
    formula: str = ""
    hints: Sequence[str] = ()
    shortcuts: Mapping[Any, str] = field(default_factory=dict)
    extras: Mapping[str, Sequence[Trial]] = field(default_factory=dict)
    rejects: Sequence[str] = ()
    methods: Sequence[str] = ()
    module: str = ""

    @property
    def stubs(self) -> list[str]:
        """Return the names that become stubs: the definition, or some of its methods."""
        return [f"{self.name}.{method}" for method in self.methods] or [self.name]

    @property
    def trials(self) -> list[Trial]:
        """Return all trials in order, starting with the core."""
        return [t for steps in (self.core, self.extras) for step in steps.values() for t in step]

    @property
    def core_size(self) -> int:
        """Return the number of trials in the core."""
        return sum(map(len, self.core.values()))

    @property
    def definition(self) -> Callable[..., Any]:
        """Return the course's own definition."""
        return course_definition(self.module, self.name)

    @property
    def ends(self) -> list[int]:
        """Return the cumulative number of trials at the end of each stage."""
        return list(accumulate(map(len, [*self.core.values(), *self.extras.values()])))

    def stages(self, failed: Collection[int], wrong: Collection[int] = ()) -> tuple[Stage, ...]:
        """Return the stages; trials in ``wrong`` fail for reasons other than a missing argument."""
        missed, bad = ({bisect(self.ends, trial) for trial in each} for each in (failed, wrong))
        names = enumerate([*self.core, *self.extras])
        return tuple(Stage(x, n < len(self.core), n not in missed, n in bad) for n, x in names)


@cache
def _catalogue() -> dict[str, Exercise]:
    """Return the exercises from all chapters, by name."""
    modules = [module for module in chapters() if (BANK / f"{module}.py").is_file()]
    found = [_completed(x, module) for module in modules for x in _room(module).EXERCISES]
    return {exercise.name: exercise for exercise in found}


def _completed(exercise: Exercise, module: str) -> Exercise:
    """Add the module, and the trial for the calls that an exercise rejects."""
    if not exercise.rejects:
        return replace(exercise, module=module)
    promised = errors_trial(exercise.name, exercise.rejects, vars(_room(module)))
    return replace(exercise, module=module, extras={**exercise.extras, INPUT_CHECKS: (promised,)})


def _room(module: str) -> ModuleType:
    """Import the bank's exercises for one module of the course."""
    with usual_settings():  # the bank computes numbers when it is imported
        return import_module(f"course_lib.exercises.bank.{module}")


def exercises() -> list[str]:
    """Return the names of all exercises in chapter order."""
    return list(_catalogue())


def find_exercise(name: str) -> Exercise:
    """Return the exercise with a given name."""
    return look_up(name, _catalogue(), "exercise")


@cache
def known_mistakes(name: str) -> list[Mistake]:
    """Return the known mistakes for an exercise."""
    module = find_exercise(name).module
    room = _room(module)
    patterns = getattr(room, "PATTERNS", {})
    return mistakes_of(module, name, room.MISTAKES.get(name, {}), patterns)


@cache
def right_ways(name: str) -> list[Mistake]:
    """Return the edits that turn the course's definition into correct answers in other styles."""
    module = find_exercise(name).module
    return mistakes_of(module, name, getattr(_room(module), "ANSWERS", {}).get(name, {}))
