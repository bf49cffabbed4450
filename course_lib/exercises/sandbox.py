"""Examine a learner's module in a process of its own, which may hang or break without harm."""

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import course_lib
from course_lib.exercises.check import examine, exercise
from course_lib.exercises.export_verification import asked
from course_lib.exercises.module_writer import bound
from course_lib.exercises.notebook_builder import LIBRARY
from course_lib.exercises.report import UNTOUCHED

BROKEN = "did not run"


@dataclass(frozen=True)
class Mark:
    """Hold what came out for one exercise.

    Args:
        exercise: Its name.
        state: A report's state, or ``"did not run"``.
        mistake: Short name of the known mistake it looks like, if any.
        hint: What is wrong first.
    """

    exercise: str
    state: str
    mistake: str | None = None
    hint: str = ""


def examine_apart(package: Path, module: str, names: Sequence[str], limit: float) -> list[Mark]:
    """Examine a learner's module in other processes; what breaks one does not break the rest.

    Args:
        package: The learner's ``my_lib``, whatever the folder is called. Nothing is written there.
        module: The module in it.
        names: Its exercises.
        limit: Seconds for a process; after an exercise that hangs, the rest gets a new one.

    Returns:
        A mark for every exercise, in their order.
    """
    path = package / f"{module}.py"
    if not path.is_file():
        return [Mark(name, UNTOUCHED, hint=f"there is no {path.name}") for name in names]
    left, marks = own_names(path.read_bytes(), names), []
    while left:
        answers, end = _ask(package, module, left, limit)
        if not answers or "broken" in answers[0]:
            words = answers[0]["broken"] if answers else f"{path.name} {end}"
            marks += [Mark(name, BROKEN, hint=words) for name in left]
            break
        marks += [Mark(**answer) for answer in answers[1:]]
        left = left[len(answers) - 1 :]
        marks += [Mark(name, BROKEN, hint=f"it {end}") for name in left[:1]]
        left = left[1:]
    known = {mark.exercise: mark for mark in marks}
    return [known.get(name, Mark(name, UNTOUCHED)) for name in names]


def own_names(source: bytes, names: Sequence[str]) -> list[str]:
    """List the exercises that a module does not only hand on from ``course_lib``."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return list(names)
    others = [n for n in body if not (getattr(n, "module", None) or "").startswith("course_lib")]
    stars = any(alias.name == "*" for n in others for alias in getattr(n, "names", []))
    return [name for name in names if stars or name in bound(others)]


def main(arguments: Sequence[str]) -> None:
    """Examine in this process: import the module as ``my_lib.MODULE``, and answer line by line.

    Args:
        arguments: The package, the module, the file for the answers, and the exercises.
    """
    package, module, answers, *names = arguments
    host = ModuleType(LIBRARY)
    host.__path__ = [package]
    sys.modules[LIBRARY] = host
    sys.path.append(str(Path(package).parent))  # what lies beside the notebooks can be imported
    with open(answers, "w", encoding="utf-8", buffering=1) as lines:
        for answer in _answers(Path(package), module, names):
            lines.write(json.dumps(answer) + "\n")


def _answers(package: Path, module: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield first whether the module runs, then what came out for each exercise."""
    try:
        mine = import_module(f"{LIBRARY}.{module}")
    except (Exception, SystemExit) as error:  # whatever a learner's module raises
        yield {"broken": _said(error, package)}
        return
    yield {"runs": module}
    for name in names:
        candidate = getattr(mine, name, None)
        if candidate is exercise(name).given:
            yield asdict(Mark(name, UNTOUCHED))
        else:
            report = asked(examine, name, candidate)
            yield asdict(Mark(name, report.state, report.mistake, report.hint))


def _said(error: BaseException, package: Path) -> str:
    """Say in which file of the package an error arose, and which one."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((error.filename, error.lineno))
    own = [(Path(file).name, line) for file, line in places if Path(file or "").parent == package]
    where = "{}, line {}: ".format(*own[-1]) if own else ""
    return f"{where}{type(error).__name__}: {error}".partition("\n")[0]


def _ask(
    package: Path, module: str, names: Sequence[str], limit: float
) -> tuple[list[dict[str, Any]], str]:
    """Run ``main`` elsewhere; return its answers, and how it ended."""
    course = str(Path(course_lib.__file__).parents[1])
    paths = os.pathsep.join(filter(None, [course, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as place:
        answers = Path(place) / "answers"
        answers.touch()
        child = subprocess.Popen(
            [sys.executable, "-B", "-m", __name__, package.resolve(), module, answers, *names],
            cwd=place,  # what the code writes, lands there
            env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            end = f"ended its process with code {child.wait(limit)}"
        except subprocess.TimeoutExpired:
            end = f"did not finish within {limit:g} s"
        finally:
            _stop(child)
        lines = answers.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")], end


def _stop(child: subprocess.Popen) -> None:
    """End a process with all that it started, if it still runs."""
    if child.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
