"""Examine a learner's library in another process, with limits on time, memory and output.

The other process sends one line of JSON for each report.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from importlib.util import decode_source
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from course_lib.exercises.checking.contents import PACKAGE
from course_lib.exercises.checking.report import Report, Stage
from course_lib.exercises.library.package import LIBRARY

BROKEN = "did not run"
UNREADABLE = "it sent something unreadable"
LATE = "the time limit for all exercises was reached"
START = 60.0  # seconds that a process may need to import torch
MEMORY = 8 << 30  # bytes of memory that a process may use
FILE = 64 << 20  # bytes in a file that it writes
SENT = 1 << 20  # bytes that it may send
SOURCE = 1 << 20  # bytes in a module
ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "LANG")
Todo = dict[str, list[str]]  # exercises by module


def state_of(report: Report) -> str:
    """Return a report's state, or ``"did not run"``."""
    return BROKEN if report.kind == BROKEN else report.state


def examine_apart(
    package: Path, asked: Todo, limit: float, texts: Mapping[str, str] | None = None
) -> dict[str, Report]:
    """Examine a learner's modules in another process, and start a new process after a crash.

    We run a copy of the package, in which ``texts`` replaces some of the modules. Each module and
    each exercise may take up to ``limit`` seconds, and all together up to ten times as long.
    """
    reports: dict[str, Report] = {}
    todo: Todo = {}
    end = time.monotonic() + 10 * limit
    with _copied(package, texts or {}) as place:
        for module, names in asked.items():
            file = package / f"{module}.py"
            text, problem = _source(place / LIBRARY / file.name, file)
            hint = "" if text else f"{file.name} is missing or empty"
            untried = {name: Report(name, False, hint=hint, attempted=False) for name in names}
            reports |= {name: _broken(name, problem) for name in names} if problem else untried
            todo[module] = [name for name in names if re.search(rf"\b{name}\b", text)]
        while (todo := {m: names for m, names in todo.items() if names}) and time.monotonic() < end:
            reports |= _judged(todo, *_run(place, todo, limit, end))
    late = [name for names in todo.values() for name in names]
    return reports | {name: _broken(name, LATE) for name in late}


def _source(copy: Path, file: Path) -> tuple[str, str]:
    """Return the text of a copied module, or say why the learner's file cannot be used."""
    try:
        text = decode_source(copy.read_bytes() if copy.is_file() else b"")
    except (SyntaxError, UnicodeError):
        text = "\0"
    if "\0" in text:
        return "", f"{file.name} is not text in UTF-8; save it in that encoding"
    if copy.is_file() or not os.path.lexists(file):
        return text, ""
    if file.is_symlink():
        return "", f"{file.name} is a link; replace it with the file itself"
    if file.is_dir():
        return "", f"{file.name} is a folder; replace it with a file"
    return "", f"{file.name} is larger than 1 MB, or we may not read it"


def _run(place: Path, todo: Todo, limit: float, end: float) -> tuple[list[bytes], str]:
    """Run ``main`` in a separate process; return the lines that it sent, and how it ended."""
    env = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE.parent), env.get("PYTHONPATH")]))
    env |= {"OMP_NUM_THREADS": "1"} | dict.fromkeys(("HOME", "TMPDIR", "TEMP"), str(place))
    command = [sys.executable, "-P", "-B", "-m", __name__, str(place), json.dumps(todo)]
    with tempfile.TemporaryFile() as sent:
        process = subprocess.Popen(
            command,
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sent,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            ending = _ending(process, sent, limit, end)
        finally:
            with suppress(OSError, AttributeError):  # Windows has no killpg
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
        sent.seek(0)
        return sent.read(SENT).splitlines(), ending


def _ending(process: subprocess.Popen, sent: BinaryIO, limit: float, end: float) -> str:
    """Wait until a process ends or reaches one of its limits, and describe how it ended."""
    size, latest = 0, time.monotonic() + START + limit
    while process.poll() is None:
        if time.monotonic() > end:
            return LATE
        if time.monotonic() > latest:
            return f"it did not finish within {limit:g} s"
        before, size = size, os.fstat(sent.fileno()).st_size
        if size > SENT:
            return "it sent too much data"
        if size > before:
            latest = time.monotonic() + limit
        time.sleep(0.02)
    return f"it exited with code {process.returncode}"


def _judged(todo: Todo, lines: Sequence[bytes], ending: str) -> dict[str, Report]:
    """Turn a process's lines into reports, and remove the examined exercises from ``todo``.

    The exercise that the process did not finish is reported as not run. If it did not even finish
    importing a module, this applies to all of the module's exercises.
    """
    reports: dict[str, Report] = {}
    sent = iter(lines)
    for module, names in todo.items():
        line = next(sent, None)
        if line != module.encode():
            hint = ending if line is None else UNREADABLE
            reports |= {name: _broken(name, hint) for name in names}
            names.clear()
            break
        for line in islice(sent, len(names)):
            name = names.pop(0)
            reports[name] = _received(name, line)
            if reports[name].hint == UNREADABLE:
                return reports  # the next lines may belong to other exercises
        if names:
            name = names.pop(0)
            reports[name] = _broken(name, ending)
            break
    return reports


def _received(name: str, line: bytes) -> Report:
    """Rebuild a report from a process that may have sent anything."""
    try:
        sent = json.loads(line)
        words = ("mistake", "hint", "kind", "detail", "second")
        mistake, hint, kind, detail, second = (str(sent[word] or "") for word in words)
        passed, attempted = (sent[key] is True for key in ("passed", "attempted"))
        stages = tuple(Stage(**stage) for stage in sent["stages"])
    except Exception:
        return _broken(name, UNREADABLE)
    shown = (mistake or None, hint, kind or None, detail, attempted, stages, second)
    return Report(name, passed, *shown)


def _broken(name: str, hint: str) -> Report:
    """Report an exercise that did not run."""
    return Report(name, False, hint=hint, kind=BROKEN)


@contextmanager
def _copied(package: Path, texts: Mapping[str, str]) -> Iterator[Path]:
    """Copy the Python files in a package and next to it into a temporary folder."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve()
        for source, target in ((package, place / LIBRARY), (package.parent, place)):
            for file in [*source.glob("*.py"), *source.glob("tasks/*.py")]:
                is_own = file.resolve().is_relative_to(source.resolve())  # not a link
                readable = is_own and file.is_file() and os.access(file, os.R_OK)
                if readable and file.stat().st_size <= SOURCE:
                    copy = target / file.relative_to(source)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, copy)
        for module, text in texts.items():
            (place / LIBRARY / f"{module}.py").write_text(text, encoding="utf-8", newline="")
        yield place


def main(place: str, todo: str) -> None:
    """Import each module in the folder ``place``; send a line for the module and each exercise."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _limit_resources()
    sys.path.insert(0, place)
    for line in _lines(Path(place), json.loads(todo)):
        channel.write(line.encode() + b"\n")
        channel.flush()
    os._exit(0)  # run none of the learner's code at exit


def _limit_resources() -> None:
    """On Linux, limit the memory and the file size, but keep existing limits that are lower."""
    if sys.platform != "linux":
        return
    import resource

    limits = {resource.RLIMIT_AS: MEMORY, resource.RLIMIT_FSIZE: FILE, resource.RLIMIT_CORE: 0}
    for what, most in limits.items():
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def _lines(place: Path, todo: Todo) -> Iterator[str]:
    """Import each module and yield its name, and then a report as JSON for each exercise."""
    for module, names in todo.items():
        mine: Any = None
        failed: BaseException | None = None
        try:
            mine = import_module(f"{LIBRARY}.{module}")
        except BaseException as error:  # a learner's module may raise anything
            failed = error
        yield module
        for name in names:
            try:
                if failed:
                    raise failed
                report = _tried(name, mine)
            except BaseException as error:
                report = _broken(name, _error_line(error, place / LIBRARY))
            yield json.dumps(asdict(report))


def _tried(name: str, module: ModuleType) -> Report:
    """Examine a module's definition, unless it is missing or the course's own.

    Meanwhile, the answer has its own name in the module, because it may use that name.
    """
    from course_lib.exercises.checking.check import examine  # only this process imports torch
    from course_lib.exercises.library.fallbacks import PASSED_OVER, from_course

    used = getattr(module, name, None)
    candidate = PASSED_OVER.get(used, used) if from_course(used) else used
    if candidate is None or from_course(candidate):
        return Report(name, False, attempted=False)
    setattr(module, name, candidate)
    try:
        return examine(name, candidate)
    finally:
        setattr(module, name, used)


def _error_line(error: BaseException, package: Path) -> str:
    """Describe an error, with the file and line in the package where it occurred."""
    trace = traceback.TracebackException.from_exception(error)  # even if str(error) raises
    places = [(frame.filename, frame.lineno) for frame in trace.stack]
    if isinstance(error, SyntaxError):
        places.append((error.filename or "", error.lineno))
    own = [(Path(file).name, line) for file, line in places if Path(file or "").parent == package]
    where = "{}, line {}: ".format(*own[-1]) if own else ""
    message = str(trace).partition("\n")[0]
    return f"{where}{type(error).__name__}: {message}"


if __name__ == "__main__":
    main(*sys.argv[1:])
