"""How the commands read words, and how they speak in a terminal."""

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

QUOTED = 200  # characters of somebody else's text in an error
CODES = {"bold": 1, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
SIGNS = {"✓": "green", "✗": "red", "○": "yellow", "◐": "yellow"}


def add_command(
    commands: argparse._SubParsersAction, name: str, purpose: str, run: Callable | str
) -> argparse.ArgumentParser:
    """Add a command with its purpose and the function that runs it, or ``"module:function"``."""
    command = commands.add_parser(name, help=purpose, description=purpose)
    command.set_defaults(run=run)
    return command


def whole_from_one(text: str) -> int:
    """Read a positive integer, or say what is wrong."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def path_of(text: str) -> Path:
    """Read the name of a file or a folder, in which ``~`` is the user's own."""
    if not text:
        raise argparse.ArgumentTypeError("the name of a file or a folder is empty")
    return Path(text).expanduser()


def shortened(sentence: str) -> str:
    """Cut words with more than ``QUOTED`` characters."""
    return re.sub(rf"(\S{{{QUOTED}}})\S+", r"\1…", sentence)


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return a question that names what is most similar to a word, or nothing."""
    near = difflib.get_close_matches(word[:QUOTED], list(names), n=1)
    return f". Did you mean `{near[0]}`?" if near else ""


def has_colors(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colors, and the user wants to see them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    known = sys.platform != "win32" or "WT_SESSION" in os.environ  # older consoles show the codes
    return wanted and known and stream.isatty()


def paint(text: str, color: str) -> str:
    """Color a text for stdout, where there are colors."""
    return f"\033[{CODES[color]}m{text}\033[0m" if has_colors(sys.stdout) else text


def paint_signs(text: str) -> str:
    """Color the signs of reports."""
    return re.sub("[✓✗○◐]", lambda sign: paint(sign[0], SIGNS[sign[0]]), text)


def tell(sentence: str) -> None:
    """Tell people what happens; programs that read the output of a command do not see it."""
    if sys.stderr.isatty():
        print(sentence, file=sys.stderr, flush=True)
