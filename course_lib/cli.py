"""The command ``course``: train a translator or a GPT, use and measure it; write a workbook.

Each task (``numbers``, ``multi30k``, ``gpt``) has its own options: ``course train --task gpt -h``.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from course_lib.data.multi30k_files import download_multi30k
from course_lib.exercises.commands import add_command, add_learners_commands
from course_lib.input_checks import QUOTED
from course_lib.interop.download import MODELS, continue_with, download, translate_with
from course_lib.probes import probe_made
from course_lib.task_commands import TASKS
from course_lib.trainer.hardware import prepare_machine
from course_lib.trainer.options import LAST_SEED, whole_from_one
from course_lib.training_commands import STOPPED, add_training_commands, path_of

NO_MEMORY = ("can't allocate memory", "out of memory")  # torch's words on a CPU, and on a GPU


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process.

    Returns:
        The exit code: 0, 1 if a probe fails, 2 with one sentence if something is wrong, and 130
        after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller has closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
    options = parser(task_of(arguments)).parse_args(arguments)
    try:
        " ".join(arguments).encode()  # raises an error if it is not text in UTF-8
        run = published_command if getattr(options, "weights", None) else options.run
        code = run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # such as | head
        sys.stdout = open(os.devnull, "w", encoding="utf-8")
        return 0
    except UnicodeError as error:
        sentence = f"a word, a path or a file is not text in UTF-8 ({error})"
    except (ValueError, OSError) as error:
        sentence = str(error)
    except (MemoryError, RuntimeError) as error:
        in_torch = any(words in str(error) for words in NO_MEMORY)
        if not in_torch and not isinstance(error, MemoryError):
            raise
        sentence = "it does not fit into the memory; take a smaller model or smaller batches"
    except KeyboardInterrupt:
        print(f"\ncourse {options.command}: stopped", file=sys.stderr)
        return STOPPED
    print(f"course {options.command}: {shortened(sentence)}", file=sys.stderr)
    return 2


class Parser(argparse.ArgumentParser):
    """Reject options in a sentence that does not quote long words whole."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and exit with 2."""
        super().error(shortened(message))


def shortened(sentence: str) -> str:
    """Cut words with more than ``QUOTED`` characters."""
    return re.sub(rf"(\S{{{QUOTED}}})\S+", r"\1…", sentence)


def task_of(arguments: Sequence[str]) -> str:
    """Return the task that the options name; a GPT is the only one that samples."""
    usual = "gpt" if arguments[:1] == ["sample"] else "numbers"
    finder = argparse.ArgumentParser(add_help=False)
    finder.add_argument("--task", nargs="?")  # without a value: an error later
    return finder.parse_known_args(arguments)[0].task or usual


def parser(task: str = "numbers") -> argparse.ArgumentParser:
    """Describe the commands, with the options of one task."""
    top = Parser(prog="course", description=__doc__)
    top.add_argument("--version", action="version", version=f"course {version('course-lib')}")
    commands = top.add_subparsers(dest="command", required=True)
    add_training_commands(commands, task if task in TASKS else "numbers")
    _add_published(commands)
    add_learners_commands(commands)
    _add_probes(commands)
    return top


def _add_published(commands: argparse._SubParsersAction) -> None:
    """Describe what downloads and uses published models."""
    weights = dict(type=path_of, metavar="FOLDER", help="of a published model (chapter 22)")
    for name in {"translate", "sample"} & commands.choices.keys():
        commands.choices[name].add_argument("--weights", **weights)
    purpose = "download a corpus or a model, and check it"
    downloads = add_command(commands, "download", purpose, download_command)
    downloads.add_argument("name", choices=("multi30k", *MODELS))
    downloads.add_argument("folder", type=path_of, metavar="DIR")


def download_command(options: argparse.Namespace) -> int:
    """Download what is missing, and print where it is."""
    if options.name in MODELS:
        folder = download(options.name, options.folder)
        print(f"{options.name} is in {folder}; licence: {MODELS[options.name].licence}")
    else:
        folder = download_multi30k(options.folder)
        print(f"Multi30k is in {folder}; now: course train --task multi30k --data {options.folder}")
    return 0


def published_command(options: argparse.Namespace) -> int:
    """Translate or continue a text with published weights."""
    prepare_machine(options.threads, options.device)
    if options.command == "translate":
        print(translate_with(options.weights, [" ".join(options.text)])[0])
    else:
        sampling = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p")}
        seed = options.draw % (LAST_SEED + 1)
        prompt = options.prompt or ""
        print(continue_with(options.weights, prompt, options.tokens, seed, **sampling))
    return 0


def probe_command(options: argparse.Namespace) -> int:
    """Probe what a function of the user's makes; 1 when a probe fails."""
    sys.path.insert(0, os.getcwd())
    results = probe_made(options.factory, vocab_size=options.vocab_size, pad_id=options.pad_id)
    for result in results:
        print(result)
    return int(not all(result.passed for result in results))


def _add_probes(commands: argparse._SubParsersAction) -> None:
    """Describe the commands that look for mistakes in models."""
    probes = add_command(commands, "probe", "look for mistakes in a model of yours", probe_command)
    probes.add_argument("factory", metavar="MODULE:FUNCTION", help="returns it, or probe()'s dict")
    probes.add_argument("--vocab-size", type=whole_from_one, metavar="V")
    probes.add_argument("--pad-id", type=int, metavar="ID")


if __name__ == "__main__":
    sys.exit(main())
