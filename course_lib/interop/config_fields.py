"""The fields of a published model's configuration, each checked where a loader reads it."""

import json
import reprlib
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from course_lib.command_line import as_typed, runnable

LARGEST = 100_000_000  # of any size: a product of two such sizes is a shape that torch can describe
LARGEST_NUMBER = 1e30
OTHER_LOADERS = "`course translate` takes Marian models, `course sample` those like GPT-2 or Llama"

Supported = Mapping[str, tuple[object, Collection[object]]]  # field: (if absent, what is covered)
Choice = TypeVar("Choice")


class ConfigFields:
    """Return the fields of a configuration, each of the type and in the range that is asked for.

    Every method raises a ValueError with the field's name and value if it is not.

    Args:
        content: Values by name, as JSON has them.
        path: Names of the objects that contain them, such as ``"rope_parameters."``.
        source: The file that contains them.
        names: How the file calls a field, where it is not as ``config.json`` calls it.
    """

    MOST_LAYERS = 256
    LARGEST_TABLE = 2**26  # numbers in a table of positions that is not in the file: 256 MiB

    def __init__(
        self,
        content: Mapping[str, object],
        path: str = "",
        source: str = "config.json",
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.content = content
        self.path = path
        self.source = source
        self.names = names

    def integer(
        self,
        name: str,
        *,
        default: int | None = None,
        least: int = 1,
        most: int = LARGEST,
        divides: int = 0,
    ) -> int:
        """Return an integer from ``least`` to ``most``, and a divisor of ``divides`` if given.

        With a default, the field may be absent or null.
        """
        value = self.content.get(name)
        value = default if value is None else value
        if value is None and name not in self.content:
            raise ValueError(f"{self.source} has no field {self._shown(name)}; get the file again")
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            if value == 0 or divides % value == 0:
                return value
        expected = f"{least}" if least == most else f"integers from {least} to {most}"
        raise self.uncovered(name, f"{expected} that divide {divides}" if divides else expected)

    def number(self, name: str, default: float | None, *, least: float) -> float:
        """Return a number of at least ``least``; absent, it is the default, if there is one."""
        value = self.content.get(name, default)
        if isinstance(value, int | float) and not isinstance(value, bool):
            if least <= value <= LARGEST_NUMBER:
                return float(value)
        raise self.uncovered(name, f"numbers from {least:g} to {LARGEST_NUMBER:g}")

    def choice(self, name: str, default: Choice, covered: Collection[Choice]) -> Choice:
        """Return one of the values that are covered; absent, it is the default."""
        value = self.content.get(name, default)
        for known in covered:
            if value == known and isinstance(value, bool) == isinstance(known, bool):
                return known
        raise self.uncovered(name, " or ".join(map(repr, covered)), default)

    def section(self, name: str, names: Collection[str]) -> "ConfigFields":
        """Return the fields of a nested object, which may have only these names.

        If the object is missing or null, return no fields.
        """
        value = self.content.get(name)
        value = {} if value is None else value
        if not isinstance(value, dict) or not value.keys() <= set(names):
            raise self.uncovered(name, f"objects of {', '.join(names)}")
        return ConfigFields(value, f"{self._shown(name)}.", self.source)

    def uncovered(self, name: str, covered: str, default: object = None) -> ValueError:
        """Return the error for a value that a loader does not cover; absent, it is the default."""
        value = reprlib.repr(self.content.get(name, default))
        return ValueError(
            f"{self.source} says {self._shown(name)}={value}; this loader covers {covered} only"
        )

    def _shown(self, name: str) -> str:
        """Return how the file calls a field."""
        return self.path + self.names.get(name, name)


def read_json(path: Path) -> dict[str, object]:
    """Read a file that contains one JSON object; raise ValueError for any other."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON ({error}); get the file again") from None
    if not isinstance(content, dict):
        shown = reprlib.repr(content)
        raise ValueError(f"{path} must contain a JSON object, got {shown}; get the file again")
    return content


def read_config(
    folder: Path | str, model_types: Collection[str], supported: Supported
) -> ConfigFields:
    """Read ``config.json``, and check the type of the model and the fields in ``supported``.

    Raises ValueError, with the field's name and value, if they are not covered, if the weights are
    quantized, or if there is no such file.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{folder} is not a folder with a config.json; pass a published model "
            f"(`{as_typed('download', '--help')}` lists those that you can download)"
        )
    fields = ConfigFields(read_json(path))
    if fields.content.get("model_type") not in list(model_types):
        known = " or ".join(map(repr, model_types))
        raise ValueError(f"{fields.uncovered('model_type', known)}; {runnable(OTHER_LOADERS)}")
    for name, (default, covered) in {"quantization_config": (None, [None]), **supported}.items():
        fields.choice(name, default, covered)
    return fields
