"""List exercises and questions by reading their source, because importing torch takes seconds."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

PACKAGE = Path(__file__).resolve().parents[2]
BANK = PACKAGE / "exercises" / "bank"
QUESTIONS = PACKAGE / "exercises" / "questions"
CLINIC = 16  # the chapter of all cases
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Item:
    """An exercise or question: its chapter, kind (such as ``"build"``), and time in minutes."""

    name: str
    chapter: int
    kind: str
    minutes: int

    def __str__(self) -> str:
        """Show everything but the chapter."""
        return f"{self.name:29} {self.kind:14} {self.minutes:3} min"


CIRCUIT = Item("planted_circuit", 20, "find the heads", 15)


@cache
def chapters() -> dict[str, int]:
    """Map each module to the number of the chapter that exports it, in chapter order."""
    pattern = re.compile(r"File to edit: \S*?(\d\d)_\w+\.ipynb")
    heads = {path.stem: path.read_text("utf-8")[:400] for path in PACKAGE.glob("*.py")}
    numbers = {module: pattern.search(head) for module, head in heads.items()}
    numbered = [(int(number[1]), module) for module, number in numbers.items() if number]
    return {module: number for number, module in sorted(numbered)}


@cache
def _built() -> dict[str, tuple[str, int]]:
    """Map each exercise to its module and its time in minutes."""
    call = re.compile(r'\bExercise\(\s*"(\w+)",\s*(\d+)')
    files = [BANK / f"{module}.py" for module in chapters()]
    found = {file: call.findall(file.read_text("utf-8")) for file in files if file.is_file()}
    return {name: (f.stem, int(time)) for f, each in found.items() for name, time in each}


def _asked() -> Iterator[Item]:
    """Yield the predictions, the tests to write, and the models with a bug or a circuit."""
    predictions, tests, cases = (
        (QUESTIONS / f"{file}.py").read_text("utf-8")
        for file in ("predictions", "mutation_score", "clinic_cases")
    )
    for chapter, options, name in re.findall(
        r"^@asked\(\s*(\d+)(.*?)^def (\w+)", predictions, re.M | re.S
    ):
        minutes = re.search(r"\bminutes=(\d+)", options)
        yield Item(name, int(chapter), "predict", int(minutes[1]) if minutes else 3)
    for name, chapter in re.findall(r'\bTestQuestion\(\s*"(\w+)",\s*(\d+)', tests):
        yield Item(name, int(chapter), "write the test", 10)
    for name in re.findall(r'^    case\(\s*"(\w+)"', cases, re.M):
        yield Item(name, CLINIC, "diagnose", 5)
    yield CIRCUIT


def module_of(exercise: str) -> str:
    """Return the module of an exercise; raise ValueError if there is none with that name."""
    return look_up(exercise, _built(), "exercise")[0]


def items() -> list[Item]:
    """List every exercise and question in chapter order."""
    built = _built().items()
    listed = [Item(name, chapters()[where], "build", time) for name, (where, time) in built]
    asked = sorted(_asked(), key=lambda item: item.chapter)
    return sorted([*listed, *asked], key=lambda item: item.chapter)


def look_up(name: str, entries: Mapping[str, Entry], kind: str, place: str = "") -> Entry:
    """Return the entry with a given name, or raise a ValueError that lists three similar names.

    The message also contains ``place``, which says where the entries are defined.
    """
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(str(name), entries, n=3, cutoff=0.0)
    raise ValueError(f"there is no {kind} {name!r}{place}; did you mean {', '.join(near)}?")
