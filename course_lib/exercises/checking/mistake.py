"""Known mistakes and correct answers, created from the course's definitions by edits."""

import inspect
import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any

NOTHING: Mapping[str, Any] = {}
Edit = tuple[str, str]  # a passage in the correct source, and its replacement
Edits = Edit | tuple[Edit, ...]
PRELUDE = """\
import math

import torch
from torch import nn
from torch.nn import functional as F
"""


@dataclass(frozen=True)
class Mistake:
    """A mistake that people make, described so that a check can recognize it.

    A correct answer in another style has the same form.

    Args:
        exercise: The definition that contains the mistake.
        module: The module of that definition.
        name: Short name, in ``words_with_underscores``.
        sentence: Completes "This is what you get when …", without a period.
        edits: Pairs of a passage in the correct source and its replacement.
        seen: Public code that contains the mistake, as ``owner/repository #number``; may be empty.
        pattern: A regular expression that recognizes this mistake in an attempt's source if other
            mistakes give the same numbers; empty if the numbers suffice.
    """

    exercise: str
    module: str
    name: str
    sentence: str
    edits: tuple[Edit, ...]
    seen: str = ""
    pattern: str = ""

    @property
    def source(self) -> str:
        """Return the source of the wrong definition; raise ValueError if a passage is missing."""
        text = course_source(self.module, self.exercise)
        for old, new in self.edits:
            if old not in text:
                raise ValueError(f"{self.exercise}, {self.name}: {old!r} is not in its source")
            text = text.replace(old, new)
        return text

    @cached_property
    def implementation(self) -> Callable[..., Any]:
        """Return the function or class that contains the mistake."""
        return define(self.source, self.module, self.exercise, f"<{self.exercise}: {self.name}>")


def course_definition(module: str, name: str) -> Callable[..., Any]:
    """Return the course's own definition."""
    return getattr(import_module(f"course_lib.{module}"), name)


@cache
def course_source(module: str, name: str) -> str:
    """Return the source of the course's own definition; looking it up takes a while."""
    return inspect.getsource(course_definition(module, name))


def define(
    source: str, module: str, name: str, file: str, beside: Mapping[str, Any] = NOTHING
) -> Callable[..., Any]:
    """Run the source of a definition in its module's namespace, and return what it defines.

    The names that ``PRELUDE`` imports are there as well, even if the module does not import them.
    Tracebacks show ``file`` as the file name. Names in ``beside`` replace those of the module.
    """
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {}
    exec(PRELUDE, names)
    names |= vars(import_module(f"course_lib.{module}"))
    names |= beside
    exec(compile(source, file, "exec"), names)
    return names[name]


def mistake_of(
    module: str, exercise: str, text: str, *edits: Edit, patterns: Mapping[str, str] = NOTHING
) -> Mistake:
    """Create a mistake from ``"short_name: sentence"`` and the edits that produce it.

    The text may end with public code that contains the mistake, such as ``[owner/repository #1]``.
    """
    parts = re.fullmatch(r"(\w+): (.+?)(?: \[([^\]]+/[^\]]+)\])?", text)
    if parts is None:
        raise ValueError(f"write 'short_name: what the code does', got {text!r}")
    name, sentence, seen = parts.groups(default="")
    return Mistake(exercise, module, name, sentence, edits, seen, patterns.get(name, ""))


def mistakes_of(
    module: str, exercise: str, table: Mapping[str, Edits], patterns: Mapping[str, str] = NOTHING
) -> list[Mistake]:
    """Create all mistakes in a table, which maps each text to one or more edits."""
    several = {text: (e,) if isinstance(e[0], str) else e for text, e in table.items()}
    return [
        mistake_of(module, exercise, text, *edits, patterns=patterns)  # type: ignore[arg-type]
        for text, edits in several.items()
    ]


def ignored(*cases: tuple[Any, ...]) -> dict[str, Edits]:
    """Return a mistake for each case: an argument's name and the edits that leave it unused."""
    return {f"{name}_ignored: `{name}` is accepted but never used": tuple(e) for name, *e in cases}
