"""Messages in a terminal: colors, and commands as this system's shell reads them."""

import codecs
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from typing import TextIO

MODULES = {"course": "course_lib.cli", "pip": "pip"}
CODES = {"bold": 1, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
SIGNS = {"✓": "green", "✗": "red", "○": "yellow", "◐": "yellow"}


def has_colors(stream: TextIO) -> bool:
    """Return whether the user wants colors and the stream is a terminal that shows them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    known = sys.platform != "win32" or "WT_SESSION" in os.environ  # older consoles show the codes
    return wanted and known and stream.isatty()


def print_what_fits(stream: TextIO) -> None:
    """Let a stream that is not in UTF-8 replace what it cannot encode, such as ✓, with ``?``."""
    if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
        stream.reconfigure(errors="replace")


def paint(text: str, color: str) -> str:
    """Color a string for stdout, if stdout shows colors."""
    return f"\033[{CODES[color]}m{text}\033[0m" if has_colors(sys.stdout) else text


def paint_signs(text: str) -> str:
    """Color the symbols in a report, such as ✓ and ✗."""
    return re.sub("[✓✗○◐]", lambda sign: paint(sign[0], SIGNS[sign[0]]), text)


def tell(sentence: str) -> None:
    """Print a message to stderr, but only if stderr is a terminal and not a log."""
    if sys.stderr.isatty():
        print(sentence, file=sys.stderr, flush=True)


def as_typed(*words: str, program: str = "course") -> str:
    """Return a command that runs from the current folder.

    It begins with the program's name if the shell finds this environment's program under that name,
    and otherwise with the program's path.
    """
    return quoted([*_start_of(program), *words])


def runnable(sentence: str) -> str:
    """Rewrite the commands in a sentence, such as `course train`, using ``as_typed``."""
    return re.sub(r"(?<=`)(course|pip)(?= \S)", lambda name: as_typed(program=name[0]), sentence)


def quoted(words: list[str]) -> str:
    """Join and quote the words of a command for this system's shell."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def environment_path() -> str:
    """Return a PATH in which this environment's programs come first."""
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])


def _start_of(program: str) -> list[str]:
    """Return the words of the command that starts a program."""
    own, found = shutil.which(program, path=sysconfig.get_path("scripts")), shutil.which(program)
    if found and (own is None or os.path.samefile(own, found)):
        return [program]
    if own is None:
        return [_shortest(sys.executable), "-m", MODULES[program]]
    return [_shortest(own)]


def _shortest(path: str) -> str:
    """Return a program's absolute or relative path, whichever is shorter."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # on another drive of Windows
        return path
    return relative if os.sep in relative and len(relative) < len(path) else path
