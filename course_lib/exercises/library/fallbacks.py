"""Fill gaps in the learner's library with the course's code, which uses the learner's parts."""

import dis
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

from course_lib.exercises.checking.call_tracer import functions_of
from course_lib.exercises.checking.exercise import exercises, find_exercise
from course_lib.exercises.library.package import changed_by_hand
from course_lib.exercises.library.stubs import from_package

COURSE = Path(__file__).resolve().parents[2]
PROVIDED: dict[str, dict[str, Any]] = {}  # what the course's code defined in a learner's module
PASSED_OVER: dict[Any, Any] = {}  # the learner's answer, by the definition that runs in its place


def provide_fallbacks(namespace: dict[str, Any]) -> None:
    """Run the course's module in the namespace of the learner's module with the same name.

    The code then imports the learner's modules instead of the course's, and its functions look up
    names among the learner's definitions. So the course's ``Transformer`` uses the learner's heads.
    ``namespace`` is the ``globals()`` of a module such as ``my_lib.masks``; the definitions that
    come after the call in that module replace the course's.
    """
    package, _, module = namespace["__name__"].partition(".")
    library = Path(namespace["__file__"]).parents[module.count(".")]
    found = (file for file in library.rglob("*.py") if file.is_file())
    files = (file.relative_to(library).with_suffix("") for file in found)
    source = Path(inspect.getfile(import_module(f"course_lib.{module}")))
    text = re.sub(r"^from \.(?=\w)", "from course_lib.", source.read_text("utf-8"), flags=re.M)
    text = from_package(text, {".".join(file.parts) for file in files}, package)
    exec(compile(text, str(source), "exec", dont_inherit=True), namespace)
    PROVIDED[namespace["__name__"]] = dict(namespace)


def core_only(name: str, answer: Callable[..., Any], *_: str) -> Callable[..., Any]:
    """Return the course's definition, which other modules run in place of an answer that passed.

    A learner's module calls this below an answer with other names or without some extras.
    """
    provided = PROVIDED.get(answer.__module__, {})
    definition = provided.get(name, find_exercise(name).definition)
    PASSED_OVER[definition] = answer
    return definition


def from_course(definition: object) -> bool:
    """Return whether a function or class comes from the course, no matter which module runs it."""
    files = map(Path, files_of(definition))
    return any(file.is_relative_to(COURSE) for file in files)


def files_of(definition: object) -> list[str]:
    """Return the files or notebook cells that contain the code of a function or class."""
    return list(dict.fromkeys(f.__code__.co_filename for f in functions_of(definition)))


def parts_of_yours(*things: Callable[..., object]) -> str:
    """Say which exercises these functions or classes use, and how many the learner wrote."""
    yours: dict[str, bool] = {}
    todo, seen = list(things), set()
    while todo:
        thing = todo.pop()
        if thing not in seen:
            seen.add(thing)
            if thing.__name__ in exercises():
                yours.setdefault(thing.__name__, not from_course(thing))
            todo += _used(thing, things[0].__module__.partition(".")[0])
    line = f"your parts in this model: {sum(yours.values())} of {len(yours)}"
    courses = [name for name in exercises() if yours.get(name) is False]
    line += f"; the course's: {', '.join(courses)}" if courses else ""
    folder = Path(inspect.getfile(things[0])).parent
    texts = {file.name: file.read_text("utf-8") for file in sorted(folder.glob("[!_]*.py"))}
    changed = [name for name, text in texts.items() if changed_by_hand(text)]
    return f"{line}; changed by hand: {', '.join(changed)}" if changed else line


def _used(thing: Any, package: str) -> Iterator[Any]:
    """Yield the package's functions and classes that a function or class refers to."""
    functions = functions_of(thing)
    named = [f.__globals__.get(name) for f in functions for name in _names(f.__code__)]
    for value in [*named, *getattr(thing, "__bases__", ())]:
        if inspect.isclass(value) or inspect.isroutine(value):
            if (value.__module__ or "").startswith(f"{package}."):
                yield value


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a code object and its nested code objects read."""
    yield from (one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
