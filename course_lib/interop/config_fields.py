"""The fields of a published model's configuration, each checked when a loader reads it."""

import json
import math
import reprlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.support.input_checks import first_line

LARGEST = 2**20  # a limit for every size: torch can describe a shape with three such sizes
MOST_LAYERS = 256
UNREADABLE = (LookupError, AttributeError, TypeError, ArithmeticError, NotImplementedError)


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


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Turn what reading a damaged or unusual file raises into a sentence.

    Raises ValueError, with the path, the kind of error and its first line.
    """
    try:
        yield
    except (*UNREADABLE, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read as a published model ({type(error).__name__}: "
            f"{first_line(error)}); download it again, or choose another model"
        ) from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that contains one JSON object; raise ValueError for any other content."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON ({error}); download it again") from None
    if not isinstance(content, dict):
        shown = reprlib.repr(content)
        raise ValueError(f"{path} must contain a JSON object, got {shown}; download it again")
    return content


def read_config(
    folder: Path | str, model_types: Collection[str], fixed: Mapping[str, object]
) -> ConfigFields:
    """Read ``config.json``, and check the model's type.

    ``fixed`` maps each field to its only supported value, which is also its default.
    Raises ValueError, with the field's name and value, if a field has any other value, if the
    weights are quantized, or if there is no ``config.json``.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{folder} is not the folder of a published model, because it has no config.json; "
            "`find_weights` returns the path of a downloaded model"
        )
    fields = ConfigFields(read_json(path))
    fields.choice("model_type", model_types)
    for name, value in {"quantization_config": None, **fixed}.items():
        fields.choice(name, [value], default=value)
    return fields
