"""Trials for functions that take plain values and return numbers or lists."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from numbers import Real
from typing import Any

from torch import Tensor

from course_lib.exercises.checking.outcomes import Outcome, describe
from course_lib.exercises.checking.trial import Trial


def number(answer: object) -> int | float:
    """Convert a number of any kind to an int or a float.

    Raises:
        TypeError: If ``answer`` is not a number.
    """
    if isinstance(answer, Tensor) and answer.numel() == 1:
        answer = answer.item()
    if isinstance(answer, Real) and not isinstance(answer, bool):
        kind: type = int if float(answer).is_integer() else float
        return kind(answer)
    raise TypeError(f"this should return one number, but it returned {describe(answer)}")


def calls(
    label: str,
    cases: Mapping[str, tuple],
    read: Callable[..., Any] = float,
    *,
    options: Mapping[str, Any] | None = None,
    kind: str = "equality",
    says: str = "",
) -> Trial:
    """Call a function with the arguments for several cases, and check that it does not change them.

    ``read`` turns a result and the arguments into the value that is compared.
    """

    def measure(candidate: Callable[..., Any]) -> Outcome:
        """Call the function with the arguments for every case."""
        values, changed = {}, False
        for name, arguments in cases.items():
            copies = deepcopy(arguments)
            answer = candidate(*copies, **(options or {}))
            values[name] = read(answer) if read in (number, float) else read(answer, *arguments)
            changed |= copies != arguments
        return Outcome(values, {}, ("its arguments",) if changed else ())

    return Trial(label, measure, kind, says)
