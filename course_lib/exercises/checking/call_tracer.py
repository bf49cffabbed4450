"""Detect when an attempt calls the function that it should implement."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import CodeType, FrameType, FunctionType
from typing import Any

from torch.overrides import TorchFunctionMode


class _Listener(TorchFunctionMode):
    """Record every torch function that is called."""

    def __init__(self, heard: set[Any]) -> None:
        super().__init__()
        self.heard = heard

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
    own = [] if candidate is definition else codes_of(definition)
    inner: dict[int, Any] = {id(f.__code__): f for f in shortcuts if isinstance(f, FunctionType)}
    watching = dict.fromkeys(map(id, own), definition) | inner
    heard: set[Any] = set()

    def notice(frame: FrameType, event: str, _: Any) -> None:
        """Record a call to a function that is written in Python."""
        if event == "call" and id(frame.f_code) in watching:
            heard.add(watching[id(frame.f_code)])

    def verdict() -> str:
        """Return a complaint if a forbidden function was called, and "" otherwise."""
        name = getattr(definition, "__name__", "")
        complaint = f"This calls the course's own {name}. Write your own version."
        complaints = {**shortcuts, definition: complaint}
        return next((complaints[function] for function in complaints if function in heard), "")

    before = sys.getprofile()
    # a listener slows every call of torch, so it is only used for functions that are not in Python
    with nullcontext() if len(inner) == len(shortcuts) else _Listener(heard):
        sys.setprofile(notice if watching else before)
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
