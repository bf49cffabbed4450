"""The fields of a published model's configuration, each checked when a loader reads it."""

import math
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

LARGEST = 2**20  # a limit for every size: torch can describe a shape with three such sizes
MOST_LAYERS = 256


@dataclass(frozen=True)
class ConfigFields:
    """A configuration whose fields are checked when they are read.

    For an unsupported value, the methods raise ValueError with the source, the name and the value.
    """

    content: Mapping[str, Any]
    source: str = "config.json"

    def choice(self, name: str, covered: Collection[Any], default: Any = None) -> Any:
        """Return a field's value if supported, or the default if the field is absent or null."""
        value = self.content.get(name)
        value = default if value is None else value
        if isinstance(covered, range):
            if value in covered:
                return value
            raise self.uncovered(name, f"integers from {covered[0]} to {covered[-1]}")
        if value in list(covered):  # it may be a list, which a dictionary cannot look up
            return value
        raise self.uncovered(name, " or ".join(map(repr, covered)))

    def size(self, name: str, *, most: int = LARGEST, default: int | None = None) -> int:
        """Return an integer from 1 to ``most``, or the default if the field is absent or null."""
        return self.choice(name, range(1, most + 1), default)

    def number(self, name: str, default: float | None = None, *, least: float) -> float:
        """Return a finite number of at least ``least``, or the default if the field is absent."""
        value = self.content.get(name, default)
        if type(value) in (int, float) and least <= value < math.inf:
            return float(value)
        raise self.uncovered(name, f"numbers of at least {least:g}")

    def sequence(self, name: str, kind: type) -> list[Any]:
        """Return a list of values of one type."""
        value = self.content.get(name)
        if isinstance(value, list) and all(type(item) is kind for item in value):
            return value
        raise self.uncovered(name, f"lists of {kind.__name__}")

    def uncovered(self, name: str, covered: str) -> ValueError:
        """Return the error for a value that a loader does not support."""
        found = f"has no field {name}"
        if name in self.content:
            found = f"says {name}={reprlib.repr(self.content[name])}"
        return ValueError(f"{self.source} {found}; this loader supports only {covered}")
