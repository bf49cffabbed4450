"""Notice when an attempt calls the function that it should build."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

from torch.overrides import TorchFunctionMode


class _Listener(TorchFunctionMode):
    """Record every function of torch that is called."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: set[Any] = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        """Record the function, and call it."""
        self.heard.add(function)
        return function(*args, **(kwargs or {}))


@contextmanager
def watched(
    shortcuts: Mapping[Any, str], definition: object, candidate: object
) -> Iterator[Callable]:
    """Watch which functions run in the block; yield a function that returns a complaint, if any.

    Torch's shortcuts must not be called, and only the course's own code may call its definition.
    """
    # by identity: two codes of the same text on the same line are equal
    codes = set() if candidate is definition else {id(code) for code in codes_of(definition)}
    used = []

    def notice(frame: FrameType, event: str, _: Any) -> None:
        """Record that the course's own code runs."""
        if event == "call" and id(frame.f_code) in codes:
            used.append(frame.f_code)

    def verdict() -> str:
        """Name a forbidden function that was called."""
        for function, complaint in shortcuts.items():
            if function in listener.heard:
                return complaint
        name = getattr(definition, "__name__", "")
        return f"This calls the course's own {name}. Write your own version." if used else ""

    before = sys.getprofile()
    with _Listener() as listener:
        sys.setprofile(notice if codes else before)
        try:
            yield verdict
        finally:
            sys.setprofile(before)


def codes_of(definition: object) -> set[CodeType]:
    """Return the code of a function, or of every method that a class defines itself."""
    return {function.__code__ for function in functions_of(definition)}


def functions_of(definition: object) -> list[FunctionType]:
    """Return a function, or those that a class defines itself, without their wrappers."""
    definition = getattr(definition, "served", definition)
    members = vars(definition).values() if inspect.isclass(definition) else [definition]
    functions = (inspect.unwrap(member) for member in members if callable(member))
    return [function for function in functions if isinstance(function, FunctionType)]
