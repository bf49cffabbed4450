"""Descriptions of the commands, and functions that format and print messages."""

import argparse
import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from course_lib.support.quoted_text import QUOTED

MODULES = {"course": "course_lib.cli", "pip": "pip"}
COMMANDS = {
    "Learn": {
        "learn": "open your workbook in JupyterLab, creating one first if you have none",
        "lab": "open the completed chapters, with all the answers, in JupyterLab",
        "workbook": "create a workbook, a copy of the chapters for you to fill in",
        "check": "check an answer in your my_lib; the exit code is 0 if the answer is correct, "
        "and 1 if it is not",
        "progress": "show what you have done and what comes next",
    },
    "Train and use models": {
        "train": "train a model, by default a number-word translator",
        "translate": "translate some text, or each line that you type",
        "sample": "continue a prompt with your GPT or a published model",
        "chat": "chat with a published, instruction-tuned model",
        "evaluate": "measure how well a trained model performs",
        "download": "download a corpus or a published model, and check its files",
    },
    "Check": {
        "probe": "look for mistakes in your own model",
        "grade": "check the answers of a whole class; the learners' code runs on this computer",
    },
}
STOPPED = 130  # the exit code after Ctrl-C
CODES = {"bold": 1, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
SIGNS = {"✓": "green", "✗": "red", "○": "yellow", "◐": "yellow"}


def add_command(
    commands: argparse._SubParsersAction, name: str, run: Callable | str
) -> argparse.ArgumentParser:
    """Add a command and the function that runs it, which may be given as ``"module:function"``."""
    (purpose,) = [group[name] for group in COMMANDS.values() if name in group]
    command = commands.add_parser(name, description=purpose)
    command.set_defaults(run=run, parser=command)
    return command


def whole_from_one(text: str) -> int:
    """Parse a positive integer, or raise an error that explains what is wrong."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def path_of(text: str) -> Path:
    """Turn the name of a file or folder into a path; ``~`` stands for the user's home folder."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a file or a folder is empty")
    return Path(text).expanduser()


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return “Did you mean …?” with the closest name, or an empty string if no name is close."""
    near = difflib.get_close_matches(word[:QUOTED], list(names), n=1)
    return f". Did you mean `{near[0]}`?" if near else ""


def has_colors(stream: TextIO) -> bool:
    """Return whether the user wants colors and the stream is a terminal that shows them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    known = sys.platform != "win32" or "WT_SESSION" in os.environ  # older consoles show the codes
    return wanted and known and stream.isatty()


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
