"""Commands as the reader can type them, with or without an activated environment."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

MODULES = {"course": "course_lib.cli", "pip": "pip"}


def as_typed(*words: str, program: str = "course") -> str:
    """Return a command that runs from the current folder.

    It begins with the program's name if the shell finds this environment's program under that name,
    and otherwise with its path.
    """
    return quoted([*_start_of(program), *words])


def runnable(sentence: str) -> str:
    """Rewrite the commands in a sentence, such as `course train`, as ``as_typed`` does."""
    return re.sub(r"(?<=`)(course|pip)(?= \S)", lambda name: as_typed(program=name[0]), sentence)


def quoted(words: list[str]) -> str:
    """Join the words of a command for the shell of this system."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def environment_path() -> str:
    """Return the PATH that finds the programs of this environment first."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])


def _start_of(program: str) -> list[str]:
    """Return the first words of a command."""
    own, found = shutil.which(program, path=sysconfig.get_path("scripts")), shutil.which(program)
    if found and (own is None or os.path.samefile(own, found)):
        return [program]
    if own is None:
        return [_shortest(sys.executable), "-m", MODULES[program]]
    return [_shortest(own)]


def _shortest(path: str) -> str:
    """Return the absolute or the relative path of a program, whichever is shorter."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # on another drive of Windows
        return path
    return relative if os.sep in relative and len(relative) < len(path) else path
