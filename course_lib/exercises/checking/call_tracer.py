"""Detect when an attempt calls the function that it should implement."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

from torch.overrides import TorchFunctionMode


class _Listener(TorchFunctionMode):
    """Record every torch function that is called."""

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
    """Watch the calls in a block; yield a function that returns a complaint if one is forbidden.

    An attempt must not call the ``shortcuts`` or the course's own definition.
    """
    # by identity, because code objects with the same text on the same line are equal
    codes = set() if candidate is definition else {id(code) for code in codes_of(definition)}
    used = []

    def notice(frame: FrameType, event: str, _: Any) -> None:
        """Record a call to the course's own definition."""
        if event == "call" and id(frame.f_code) in codes:
            used.append(frame.f_code)

    def verdict() -> str:
        """Return a complaint if a forbidden function was called, and "" otherwise."""
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
    """Return the code objects of a function, or of a class's own (not inherited) methods."""
    return {function.__code__ for function in functions_of(definition)}


def functions_of(definition: object) -> list[FunctionType]:
    """Return a function, or a class's own (not inherited) methods, without any wrappers."""
    members = vars(definition).values() if inspect.isclass(definition) else [definition]
    functions = (inspect.unwrap(member) for member in members if callable(member))
    return [function for function in functions if isinstance(function, FunctionType)]
