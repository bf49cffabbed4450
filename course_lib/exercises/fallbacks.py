"""Fill in what a learner has not written with the course's code and the learner's own parts."""

import dis
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any

from course_lib.exercises.call_tracer import functions_of
from course_lib.exercises.check import order_of
from course_lib.exercises.exercise_bank import exercise, exercises
from course_lib.exercises.learner_package import changed_by_hand
from course_lib.exercises.served_answers import serve
from course_lib.exercises.stubs import from_package

COURSE = Path(__file__).resolve().parents[1]


def provide_fallbacks(namespace: dict[str, Any]) -> None:
    """Run the course's module in the learner's module of the same name.

    It imports the learner's modules where the course imports its own, and its functions look names
    up where the learner's definitions are. So the course's ``Transformer`` has the learner's heads.
    The ``namespace`` is the ``globals()`` of a module such as ``my_lib.masks``. The learner's
    definitions below the call replace the course's.
    """
    package, _, module = namespace["__name__"].partition(".")
    library = Path(namespace["__file__"]).parents[module.count(".")]
    files = (file.relative_to(library).with_suffix("") for file in library.rglob("*.py"))
    source = Path(inspect.getfile(import_module(f"course_lib.{module}")))
    text = re.sub(r"^from \.(?=\w)", "from course_lib.", source.read_text("utf-8"), flags=re.M)
    text = from_package(text, {".".join(file.parts) for file in files}, package)
    exec(compile(text, str(source), "exec", dont_inherit=True), namespace)


def core_only(name: str, answer: Callable[..., Any], *missed: str) -> Callable[..., Any]:
    """Use an answer instead of the course's definition, except for the stages it missed."""
    return serve(answer, exercise(name).definition, missed, order_of(name, answer))


def from_course(definition: object) -> bool:
    """Say whether a function or class was written by the course, wherever it runs."""
    files = map(Path, files_of(definition))
    return any(file.is_relative_to(COURSE) for file in files)


def files_of(definition: object) -> list[str]:
    """Return the files, or cells of a notebook, in which a function or class is written."""
    return list(dict.fromkeys(f.__code__.co_filename for f in functions_of(definition)))


def parts_of_yours(*things: Callable[..., object]) -> str:
    """Say which exercises the learner's classes or functions use, and how many are their own."""
    yours: dict[str, bool] = {}
    todo, seen = list(things), set()
    while todo:
        thing = todo.pop()
        if thing not in seen:
            seen.add(thing)
            if thing.__name__ in exercises():
                yours.setdefault(thing.__name__, not from_course(thing))
            todo += _used(thing, things[0].__module__.partition(".")[0])
    line = f"parts of yours in this model: {sum(yours.values())} of {len(yours)}"
    courses = [name for name in exercises() if yours.get(name) is False]
    line += f"; the course's: {', '.join(courses)}" if courses else ""
    folder = Path(inspect.getfile(things[0])).parent
    texts = {file.name: file.read_text("utf-8") for file in sorted(folder.glob("[!_]*.py"))}
    changed = [name for name, text in texts.items() if changed_by_hand(text)]
    return f"{line}; changed by hand: {', '.join(changed)}" if changed else line


def _used(thing: Any, package: str) -> Iterator[Any]:
    """Yield the functions and classes of a package that a function or class refers to."""
    functions = functions_of(thing)
    named = [f.__globals__.get(name) for f in functions for name in _names(f.__code__)]
    for value in [*named, *getattr(thing, "__bases__", ())]:
        if inspect.isclass(value) or inspect.isroutine(value):
            if (value.__module__ or "").startswith(f"{package}."):
                yield value


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a code object reads, including the code objects inside it."""
    yield from (one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
