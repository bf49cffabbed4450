"""Examine a learner's library in a process that may hang, break or lie without harm.

That process sends what its definitions computed, as data. Whether it is right is decided here.
"""

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from course_lib.exercises.check import complaints, examine
from course_lib.exercises.check_report import CORRECT, UNTOUCHED, WRONG
from course_lib.exercises.exercise_bank import exercise
from course_lib.exercises.fallbacks import COURSE, from_course
from course_lib.exercises.json_serialization import packed, unpacked
from course_lib.exercises.learner_package import LIBRARY
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.signature_adapter import adapt
from course_lib.exercises.trial import try_out

BROKEN = "did not run"
START = 60.0  # seconds in which a process has begun, torch being loaded
MEMORY = 8 << 30  # bytes a process may address
FILE = 64 << 20  # bytes a file that it writes may have
SENT = 64 << 20  # bytes that it may send
SOURCE = 1 << 20  # bytes a module may have
ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "LANG")
READ_ONLY = """mount --bind "$0" "$0" || exit
while read -r _ place _; do
  [ "$place" = "$0" ] || mount -o remount,bind,ro "$place" 2>/dev/null
done </proc/self/mounts
cd "$0" && exec "$@"
"""
UNSHARE = ("unshare", "--map-root-user", "--net", "--pid", "--mount", "--mount-proc", "--fork")
APART = (*UNSHARE, "--kill-child", "sh", "-c", READ_ONLY)


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
    mistake: str = ""
    hint: str = ""


def examine_apart(
    package: Path,
    asked: Mapping[str, Sequence[str]],
    limit: float,
    texts: Mapping[str, str] | None = None,
) -> dict[str, Mark]:
    """Examine a learner's modules in another process; what breaks one does not break the rest.

    Args:
        package: The learner's ``my_lib``. What runs is a copy of its Python files, and of those
            beside it.
        asked: The exercises, by module.
        limit: Seconds for a module or an exercise; after one that hangs, the rest gets a new
            process. All together have ten times as long.
        texts: Modules that are put in the place of the learner's.

    Returns:
        A mark for every exercise, in their order.
    """
    marks: dict[str, Mark] = {}
    todo: dict[str, list[str]] = {}
    end = time.monotonic() + 10 * limit
    with _copied(package, texts or {}) as place:
        for module, names in asked.items():
            file = place / LIBRARY / f"{module}.py"
            text = file.read_text("utf-8", errors="replace") if file.is_file() else ""
            hint = "" if text else f"there is no {file.name}"
            marks |= {name: Mark(name, UNTOUCHED, hint=hint) for name in names}
            todo[module] = [name for name in names if re.search(rf"\b{name}\b", text)]
        todo = {module: names for module, names in todo.items() if names}
        while todo and time.monotonic() < end:
            with _Child(place, todo, limit) as child:
                marks |= _asked(child, todo)
    late = {name: "the time for all was over" for names in todo.values() for name in names}
    return marks | {name: Mark(name, BROKEN, hint=words) for name, words in late.items()}


def _asked(child: "_Child", todo: dict[str, list[str]]) -> dict[str, Mark]:
    """Read the answers of a process until all are there or it ends; take them off what is to do."""
    marks = {}
    for module in list(todo):
        broken = child.answer(f"{module}.py").get("broken")
        while todo[module] and (broken or not child.ended):
            name = todo[module].pop(0)
            if broken:
                marks[name] = Mark(name, BROKEN, hint=str(broken))
            else:
                marks[name] = _mark(name, child.answer("it"))
        if not todo[module]:
            del todo[module]
        if child.ended:
            break
    return marks


def _mark(name: str, answer: Mapping[str, Any]) -> Mark:
    """Judge an answer: right is what computes what it should, whatever else it says of itself."""
    state, words = answer.get("state"), [str(answer.get(key, "")) for key in ("mistake", "hint")]
    if "broken" in answer:
        return Mark(name, BROKEN, hint=str(answer["broken"]))
    if state == UNTOUCHED:
        return Mark(name, UNTOUCHED)
    if state != CORRECT:
        return Mark(name, WRONG, *words)
    try:
        seen = [Outcome(**unpacked(outcome)) for outcome in answer["seen"]]
        task = exercise(name)
        found = list(complaints(task, seen))
        core = [failure for failure in found if failure.trial < task.core_size]
    except Exception as error:  # what a hostile process sends may break anything
        return Mark(
            name, WRONG, hint=f"what it computes cannot be compared ({type(error).__name__})"
        )
    if core:
        return Mark(name, WRONG, hint=core[0].sentence)
    return Mark(name, CORRECT, *(words if found else ()))  # what an extra lacks


class _Child:
    """Run ``main`` in a process of its own, and read what it sends.

    Args:
        place: The folder in which it runs, and where it may write.
        todo: The exercises, by module.
        limit: Seconds for an answer.
    """

    def __init__(self, place: Path, todo: Mapping[str, Sequence[str]], limit: float) -> None:
        self.limit, self.ended, self.patience = limit, False, START
        kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        paths = [str(COURSE.parent), *filter(None, [kept.get("PYTHONPATH")])]
        own = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        homes = dict.fromkeys(("HOME", "TMPDIR", "TEMP"), str(place))
        command = [sys.executable, "-P", "-B", "-m", __name__, str(place), json.dumps(todo)]
        self.process = subprocess.Popen(
            [*apart(place), *command],
            cwd=place,
            env=kept | own | homes,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.answers: queue.Queue = queue.Queue()
        threading.Thread(target=self._read, args=[self.process.stdout], daemon=True).start()

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: Any) -> None:
        """End the process with all that it started."""
        if hasattr(os, "killpg"):
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.kill()
        self.process.wait()

    def answer(self, who: str) -> dict[str, Any]:
        """Return the next answer; where there is none, say what became of whom."""
        try:
            text = self.answers.get(timeout=self.limit + self.patience)
            self.patience = 0.0
            if text is None:
                text = json.dumps({"broken": f"{who} ended its process with code {self._code()}"})
                self.ended = True
            answer = json.loads(text)
            if isinstance(answer, dict):
                return answer
        except queue.Empty:
            self.ended = True
            return {"broken": f"{who} did not finish within {self.limit:g} s"}
        except (ValueError, RecursionError):
            pass
        self.ended = True
        return {"broken": f"{who} sent what is no answer"}

    def _code(self) -> int | str:
        """Return the exit code of a process that closed its channel."""
        try:
            return self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "unknown"

    def _read(self, channel: BinaryIO) -> None:
        """Queue the lines that come, as many bytes as may come, and ``None`` at the end."""
        left = SENT
        while left > 0 and (line := channel.readline(left)):
            left -= len(line)
            self.answers.put(line if line.endswith(b"\n") else b"")
        self.answers.put(b"" if left <= 0 else None)


@contextmanager
def _copied(package: Path, texts: Mapping[str, str]) -> Iterator[Path]:
    """Copy a package's Python files, and those beside it, to a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve()
        for source, target in ((package, place / LIBRARY), (package.parent, place)):
            for file in [*source.glob("*.py"), *source.glob("tasks/*.py")]:
                if file.is_file() and not file.is_symlink() and file.stat().st_size <= SOURCE:
                    copy = target / file.relative_to(source)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, copy)
        for module, text in texts.items():
            (place / LIBRARY / f"{module}.py").write_text(text, encoding="utf-8", newline="")
        yield place


def apart(place: Path) -> list[str]:
    """Return how a command begins that has no network, and writes nowhere but in one folder.

    Empty where the system does not allow it.
    """
    return [*APART, str(place)] if can_be_apart() else []


@cache
def can_be_apart() -> bool:
    """Try whether the system lets a process be cut off: Linux with user namespaces does."""
    with tempfile.TemporaryDirectory() as outer:
        place = Path(outer).resolve() / "inner"
        place.mkdir()
        command = [*APART, str(place), "sh", "-c", "touch in && ! touch ../out"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0 and (place / "in").exists()


def main(place: str, todo: str) -> None:
    """Examine in this process: import each module, try its definitions, send what came out.

    Args:
        place: The folder that holds the library.
        todo: The exercises by module, as JSON.
    """
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _limit_resources()
    sys.path.insert(0, place)
    for answer in _answers(Path(place), json.loads(todo)):
        channel.write(json.dumps(answer).encode() + b"\n")
        channel.flush()
    os._exit(0)  # whatever a learner's code would do at the end


def _limit_resources() -> None:
    """Limit memory, and the size of files; other systems than Linux do not know how."""
    if sys.platform != "linux":
        return
    import resource

    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def _answers(place: Path, todo: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Any]]:
    """Yield for each module whether it runs, then what came out for each of its exercises."""
    for module, names in todo.items():
        try:
            mine = import_module(f"{LIBRARY}.{module}")
        except BaseException as error:  # whatever a learner's module raises
            yield {"broken": _said(error, place / LIBRARY)}
            continue
        yield {"runs": module}
        for name in names:
            try:
                yield _tried(name, getattr(mine, name, None))
            except BaseException as error:
                yield {"state": WRONG, "hint": _said(error, place / LIBRARY)}


def _tried(name: str, candidate: Any) -> dict[str, Any]:
    """Return the words about a definition, and what it computes if they are good."""
    if candidate is None or from_course(candidate):
        return {"state": UNTOUCHED}
    candidate = getattr(candidate, "served", candidate)
    report = examine(name, candidate)
    answer = {"state": report.state, "mistake": report.mistake or "", "hint": report.hint}
    if report.passed:
        task = exercise(name)
        tried = adapt(candidate, task.given)
        seen = [try_out(trial, tried) for trial in task.trials]
        return answer | {"seen": [packed(vars(outcome)) for outcome in seen]}
    return answer


def _said(error: BaseException, package: Path) -> str:
    """Say in which file of the package an error arose, and which one."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((error.filename, error.lineno))
    own = [(Path(file).name, line) for file, line in places if Path(file or "").parent == package]
    where = "{}, line {}: ".format(*own[-1]) if own else ""
    try:
        words = str(error).partition("\n")[0]
    except BaseException:
        words = "(which cannot be printed)"
    return f"{where}{type(error).__name__}: {words}"


if __name__ == "__main__":
    main(*sys.argv[1:])
