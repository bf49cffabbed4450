"""The command ``course``, which opens the chapters and trains, uses and evaluates models.

Each task (``numbers``, ``multi30k``, ``gpt``) has its own options: ``course train --task gpt -h``.
A command imports its modules only when it is called, because importing torch is slow.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pkgutil import resolve_name
from typing import Any, NoReturn

from course_lib.cli.command_line import COMMANDS, STOPPED, did_you_mean
from course_lib.cli.command_options import TASK_OPTIONS, add_commands, announce
from course_lib.cli.exercise_commands import add_learners_commands
from course_lib.support.quoted_text import shortened
from course_lib.support.terminal import as_typed, paint, print_what_fits, runnable

NO_MEMORY = ("can't allocate memory", "out of memory")  # torch's words on a CPU, and on a GPU


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with the given arguments, or by default with those in ``sys.argv``.

    Returns 0 on success, 1 if a check fails, 2 after an error message, or 130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        print_what_fits(getattr(sys, name))
    command = next((word for word in arguments if not word.startswith("-")), "none")
    try:
        return run(arguments, command)
    except BrokenPipeError:  # such as | head
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        return 0
    except UnicodeError as error:
        sentence = f"an argument, a path or a file is not valid UTF-8 ({error})"
    except (ValueError, OSError) as error:
        sentence = str(error)
    except (MemoryError, RuntimeError) as error:
        in_torch = any(words in str(error) for words in NO_MEMORY)
        if not in_torch and not isinstance(error, MemoryError):
            raise
        sentence = "not enough memory; use a smaller model or smaller batches"
    except KeyboardInterrupt:
        print(f"\ncourse {command}: stopped", file=sys.stderr)
        return STOPPED
    program = f"course {command}".removesuffix(" none")
    with suppress(OSError):
        print(f"{program}: {shortened(runnable(sentence))}", file=sys.stderr)
    flush_or_drop()
    return 2


def flush_or_drop() -> None:
    """Flush what has been printed; drop it if it cannot be written, such as on a full disk."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except OSError:  # otherwise, Python tries again at exit
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


def run(arguments: Sequence[str], command: str) -> int:
    """Run a command, and return its exit code."""
    options = parser(task_of(arguments), command).parse_args(arguments or ["--help"])
    " ".join(arguments).encode()  # raises an error if it is not text in UTF-8
    function = options.run
    if isinstance(function, str):
        announce(options)
        function = resolve_name(function)
    code = function(options)
    sys.stdout.flush()
    return code


class Parser(argparse.ArgumentParser):
    """A parser that suggests a similar word after a typo, and shortens long words in errors."""

    commands: argparse._SubParsersAction | None = None  #: only in the top-level parser
    task = "numbers"  #: the task whose options and verb the commands use

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def, override]
        """Let the subcommand report unknown options, because it can suggest similar ones."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            known = self.commands.choices[options.command] if self.commands else self
            known.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and what the user may have meant, and exit with code 2."""
        names: list[str] = []
        if wrong := re.search(r"invalid choice: '(.*?)'.*choose from (.*)\)", message):
            names = re.findall(r"[^\s',]+", wrong[2])
            if self.commands:
                verb = TASK_OPTIONS[self.task].verb
                if wrong[1] in ("translate", "sample"):
                    super().error(f"the task {self.task} has no command {wrong[1]}; use {verb}")
                names = [name for group in COMMANDS.values() for name in group]
        elif wrong := re.search(r"unrecognized arguments: (--[^\s=]+)", message):
            names = re.findall(r"--[\w-]+", super().format_help())
        super().error(shortened(message + (did_you_mean(wrong[1], names) if wrong else "")))

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or an error; raise OSError, which argparse ignores, if the disk is full."""
        print(message, end="", file=file or sys.stderr, flush=True)

    def format_help(self) -> str:
        """Return the overview of all commands, or the help for one of them."""
        return overview() if self.commands else super().format_help()


def overview() -> str:
    """List the commands and the tasks, with examples."""
    lines = ["Learn the Transformer part by part, and train, use and evaluate models.", ""]
    groups = {f"{group}:": dict(listed) for group, listed in COMMANDS.items()}
    groups["Tasks (--task NAME):"] = {
        name: f"{task.described()}; {next(iter(task.sizes.values())).duration}"
        for name, task in TASK_OPTIONS.items()
    }
    for group, listed in groups.items():
        lines += [paint(group, "bold"), *(f"  {name:10} {what}" for name, what in listed.items())]
        lines += [""]
    lines += [paint("Examples:", "bold")]
    for words in (["learn"], ["train"], ["translate", "three hundred forty-five"]):
        lines += [f"  {paint(as_typed(*words), 'cyan')}"]
    lines += ["", f"{as_typed('COMMAND', '--help')} lists a command's options."]
    return "\n".join([*lines, "Read more in the course's README.md and in docs/training.md.", ""])


def task_of(arguments: Sequence[str]) -> str:
    """Return the task that the options name, or the default task for the command."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--task", nargs="?")  # without a value: an error later
    finder.add_argument("--weights", nargs="?")
    found = finder.parse_known_args(arguments)[0]
    if found.weights and arguments[0] == "translate":
        return "multi30k"
    return found.task or ("gpt" if arguments[:1] == ["sample"] else "numbers")


def parser(task: str = "numbers", command: str = "") -> argparse.ArgumentParser:
    """Build the parser for all commands, with the options of one task.

    We skip the options of the learner's commands unless ``command`` is one of them, because
    adding these options would import torch.
    """
    top = Parser(prog="course", allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"course {version('course-lib')}")
    top.commands = top.add_subparsers(dest="command", required=True)
    usual = "gpt" if command == "sample" else "numbers"
    top.task = task if task in TASK_OPTIONS else usual
    add_commands(top.commands, top.task)
    add_learners_commands(top.commands)
    return top
