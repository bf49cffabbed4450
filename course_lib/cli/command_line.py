"""Descriptions of the commands, and functions that read their arguments."""

import argparse
import difflib
from collections.abc import Callable, Iterable
from pathlib import Path

from course_lib.support.quoted_text import QUOTED

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


def add_command(
    commands: argparse._SubParsersAction, name: str, run: Callable | str
) -> argparse.ArgumentParser:
    """Add a command and the function that runs it, which may be given as ``"module:function"``."""
    (purpose,) = [group[name] for group in COMMANDS.values() if name in group]
    command = commands.add_parser(name, description=purpose, allow_abbrev=False)
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
    try:
        return Path(text).expanduser()
    except RuntimeError:  # there is no such user
        raise argparse.ArgumentTypeError(f"{text!r} names a user who has no home folder") from None


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return “Did you mean …?” with the closest name, or an empty string if no name is close."""
    near = difflib.get_close_matches(word[:QUOTED], list(names), n=1)
    return f". Did you mean `{near[0]}`?" if near else ""
