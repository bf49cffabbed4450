"""What the training commands ask, as data: it is read before torch, whose import takes long."""

import argparse
import os
from dataclasses import dataclass
from typing import Any

from course_lib.terminal import add_command, path_of, tell, whole_from_one

Options = dict[str, dict[str, Any]]  # each with the arguments of ``add_argument``
STOPPED = 130  # the exit code after Ctrl-C
COMMANDS = "course_lib.training_commands:"
SHARD = "under torchrun: no process holds all weights (FSDP2); otherwise each has a copy (DDP)"
PARTS = "micro-batches of a step: less memory, the same gradients"
USUAL = "%(default)s unless given"


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """The options of one task."""

    what: str  #: is trained, with a place for the words of the variant
    sizes: dict[str, str]  #: how long each takes; the usual one first
    settings: Options  #: hyperparameters that have an option of their own; the variant first
    threads: int | None = None  #: that compute unless asked for; all if ``None``
    verb: str  #: the command that uses what was trained
    use_options: Options
    evaluate_options: Options

    def described(self, variant: str | None = None) -> str:
        """Say what is trained, by default in the usual variant."""
        words = next(iter(self.settings.values()))["choices"]
        return self.what.format(words[variant or next(iter(words))])


SEARCH: Options = {
    "--beam": dict(type=whole_from_one, default=4, help="1 is greedy"),
    "--alpha": dict(type=float, default=0.6, help="of the length penalty"),
    "--average": dict(type=whole_from_one, default=1, help="number of last epochs to average"),
}
LINES = "without it, each line that you type or that a file contains"
TASK_OPTIONS = {
    "numbers": TaskOptions(
        what="a translator of number words, English to {}, on generated numbers",
        sizes={"course": "about half a minute of one CPU core", "smoke": "a few seconds"},
        settings={
            "to": dict(choices={"de": "German", "fr": "French", "zh": "Chinese"}),
            "steps": dict(type=whole_from_one),
        },
        threads=1,
        verb="translate",
        use_options={"text": dict(nargs="*", help=f'such as "three hundred" or 345; {LINES}')},
        evaluate_options={"--count": dict(type=whole_from_one, default=1000, help="of numbers")},
    ),
    "multi30k": TaskOptions(
        what="a translator of sentences, {}, on the captions of Multi30k",
        sizes={
            "laptop": "about an hour of two cores",
            "smoke": "half a minute, with number words in place of the captions",
            "short": "about half an hour of two cores",
        },
        settings={
            "direction": dict(
                choices={"de-en": "German to English", "en-de": "English to German"},
            )
        },
        verb="translate",
        use_options={
            "text": dict(nargs="*", help=f'such as "Ein Mann fährt Fahrrad."; {LINES}'),
            **SEARCH,
        },
        evaluate_options={
            "--split": dict(choices=("val", "test_2016_flickr"), default="val"),
            **SEARCH,
        },
    ),
    "gpt": TaskOptions(
        what="a GPT that continues a text, on {}",
        sizes={"cpu": "about 2 minutes of one CPU core", "smoke": "a few seconds"},
        settings={
            "text": dict(
                choices={
                    "library": "the source code of Python's standard library",
                    "shakespeare": "the plays of Shakespeare",
                }
            ),
            "steps": dict(type=whole_from_one),
        },
        verb="sample",
        use_options={
            "--prompt": dict(metavar="TEXT", help="how the text begins"),
            "--tokens": dict(type=whole_from_one, default=300, help="characters to generate"),
            "--temperature": dict(type=float, default=0.8, metavar="T"),
            "--top-k": dict(type=whole_from_one, metavar="K", help="the K most likely only"),
            "--top-p": dict(type=float, metavar="P", help="the most likely up to this probability"),
            "--draw": dict(type=int, default=0, help="another number gives another text"),
        },
        evaluate_options={},
    ),
}


def add_training_commands(commands: argparse._SubParsersAction, name: str) -> None:
    """Describe the commands of a task; another one has other options."""
    chosen = TASK_OPTIONS[name]
    purpose = f"train {chosen.described()} ({next(iter(chosen.sizes.values()))})"
    trains = add_command(commands, "train", purpose, COMMANDS + "train_command")
    _add_options(trains, name, {})
    trains.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any hyperparameter"
    )
    trains.add_argument("--minutes", type=float, help="stop after this many minutes in total")
    trains.add_argument("--shard", action="store_true", help=SHARD)
    trains.add_argument("--accumulate", type=whole_from_one, default=1, metavar="K", help=PARTS)
    mode = trains.add_mutually_exclusive_group()
    mode.add_argument("--resume", action="store_true", help="continue the run in the folder")
    mode.add_argument("--force", action="store_true", help="replace the run in the folder")
    purpose = "measure what was trained"
    evaluates = add_command(commands, "evaluate", purpose, COMMANDS + "evaluate_command")
    _add_options(evaluates, name, chosen.evaluate_options)
    evaluates.add_argument("--record", type=path_of, metavar="FILE", help="add the results to it")
    purpose = f"use {chosen.described()}"
    uses = add_command(commands, chosen.verb, purpose, COMMANDS + "use_command")
    _add_options(uses, name, chosen.use_options)
    weights = "of a published model (chapter 22)"
    uses.add_argument("--weights", type=path_of, metavar="FOLDER", help=weights)


def _add_options(command: argparse.ArgumentParser, name: str, own: Options) -> None:
    """Describe which training run is meant, what computes, and what else a task needs."""
    chosen = TASK_OPTIONS[name]
    about = "each has its own options"
    command.add_argument("--task", choices=TASK_OPTIONS, default=name, help=about)
    usual = next(iter(chosen.sizes))
    command.add_argument("--size", choices=chosen.sizes, default=usual, help=USUAL)
    command.add_argument("--seed", type=int)
    for setting, arguments in chosen.settings.items():
        command.add_argument(f"--{setting}", **arguments)
    command.add_argument("--data", type=path_of, metavar="DIR", help="texts, or COURSE_DATA")
    command.add_argument("--out", type=path_of, metavar="DIR", help="a folder of your own")
    threads = f"{chosen.threads or 'all'} unless given"
    command.add_argument("--threads", type=int, default=chosen.threads, help=threads)
    command.add_argument("--device", choices=("cpu", "cuda"), help="cuda where there is a GPU")
    for option, arguments in own.items():
        command.add_argument(option, **arguments)


def announce(options: argparse.Namespace) -> None:
    """Say what will be trained and how long it takes; one of several processes says it."""
    if options.command != "train":
        tell("Loading the model …")
        return
    chosen = TASK_OPTIONS[options.task]
    what = chosen.described(getattr(options, next(iter(chosen.settings))))
    start = "Continuing to train" if options.resume else "Training"
    if os.environ.get("RANK", "0") == "0":  # torchrun numbers its processes
        print(f"{start} {what}. It usually takes {chosen.sizes[options.size]}.", flush=True)
