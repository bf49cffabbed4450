"""The options of the commands that work with models, defined without importing torch."""

import argparse
import json
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.cli.command_line import add_command, path_of, whole_from_one
from course_lib.support.corpora import DIRECTIONS, LANGUAGES, SPLITS, TEXTS
from course_lib.support.terminal import tell
from course_lib.tasks.task_sizes import GPT_SIZES, MULTI30K_SIZES, NUMBERS_SIZES, TaskSize

Options = dict[str, dict[str, Any]]  # each with the arguments of ``add_argument``
CATALOG = Path(__file__).parents[1] / "interop" / "published_models.json"


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """The options of one task."""

    what: str  #: describes the trained model, with {} for the variant
    sizes: dict[str, TaskSize]  #: the default first
    settings: Options  #: hyperparameters with their own options; the variant first
    threads: int | None = None  #: default number of CPU threads; all if ``None``
    verb: str  #: the command that uses the trained model
    use_options: Options
    evaluate_options: Options = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)  #: an input to try first, by variant

    @property
    def variant(self) -> str:
        """Return the name of the first setting."""
        return next(iter(self.settings))

    def described(self, chosen: str | None = None) -> str:
        """Describe what the task trains, for the chosen variant or the default one."""
        words = self.settings[self.variant]["choices"]
        return self.what.format(words[chosen or next(iter(words))])


def one_of(choices: dict[str, str], about: str) -> dict[str, Any]:
    """Return the arguments of a setting with choices, of which the first is the default."""
    return dict(choices=choices, help=f"{about} (default: {next(iter(choices))})")


SEARCH: Options = {
    "--beam": dict(
        type=whole_from_one,
        default=4,
        help="number of hypotheses; 1 means greedy decoding (default: %(default)s)",
    ),
    "--alpha": dict(type=float, default=0.6, help="length penalty (default: %(default)s)"),
    "--average": dict(
        type=whole_from_one,
        default=1,
        metavar="N",
        help="average the weights of the last N epochs (default: %(default)s)",
    ),
}
SAMPLING: Options = {
    "--tokens": dict(
        type=whole_from_one,
        default=300,
        help="maximum number of tokens to generate (default: %(default)s)",
    ),
    "--temperature": dict(
        type=float,
        default=0.8,
        metavar="T",
        help="divides the logits; 0 chooses the most likely token (default: %(default)s)",
    ),
    "--top-k": dict(
        type=whole_from_one, metavar="K", help="sample only from the K most likely tokens"
    ),
    "--top-p": dict(
        type=float,
        metavar="P",
        help="sample only from the most likely tokens whose probabilities add up to P",
    ),
    "--draw": dict(
        type=int, default=0, help="sampling seed; it has no effect if the temperature is 0"
    ),
}
TASK_HELP = "what to train or use; each task has its own options"
LINES = "if you leave it out, the command reads lines from the terminal or from a file"
TASK_OPTIONS = {
    "numbers": TaskOptions(
        what="a number-word translator, English to {}, trained on generated numbers",
        sizes=NUMBERS_SIZES,
        settings={
            "to": one_of(LANGUAGES, "language to translate into"),
            "steps": dict(type=whole_from_one, help="number of training steps"),
        },
        threads=1,
        verb="translate",
        use_options={
            "text": dict(
                nargs="*", help=f'text to translate, such as "three hundred" or 345; {LINES}'
            )
        },
        evaluate_options={
            "--count": dict(
                type=whole_from_one,
                default=1000,
                help="how many numbers to test on (default: %(default)s)",
            )
        },
        examples=dict.fromkeys(LANGUAGES, "three hundred forty-five"),
    ),
    "multi30k": TaskOptions(
        what="a sentence translator, {}, trained on the Multi30k captions",
        sizes=MULTI30K_SIZES,
        settings={"direction": one_of(DIRECTIONS, "source and target language")},
        verb="translate",
        use_options={"text": dict(nargs="*", help=f"such as a caption; {LINES}"), **SEARCH},
        evaluate_options={
            "--split": dict(
                choices=SPLITS[1:],
                default=SPLITS[1],
                help="split to evaluate on (default: %(default)s)",
            ),
            **SEARCH,
        },
        examples={"de-en": "Ein Mann fährt Fahrrad.", "en-de": "A man is riding a bicycle."},
    ),
    "gpt": TaskOptions(
        what="a GPT that continues a prompt, trained on {}",
        sizes=GPT_SIZES,
        settings={
            "text": one_of(TEXTS, "text to train on"),
            "steps": dict(type=whole_from_one, help="number of training steps"),
        },
        verb="sample",
        use_options={"--prompt": dict(metavar="TEXT", help="text to continue"), **SAMPLING},
    ),
}


def add_commands(commands: argparse._SubParsersAction, name: str) -> None:
    """Add the commands that work with models, with the options of one task."""
    _add_training_commands(commands, name)
    _add_model_commands(commands, name)


def _add_training_commands(commands: argparse._SubParsersAction, name: str) -> None:
    """Add the commands that train and evaluate models."""
    chosen = TASK_OPTIONS[name]
    module = "course_lib.cli.training_commands:"
    trains = add_command(commands, "train", f"{module}train_command")
    _add_options(trains, name, {}, TASK_OPTIONS)
    trains.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change a hyperparameter"
    )
    trains.add_argument("--minutes", type=float, help="stop after this many minutes in total")
    about = (
        "with torchrun, shard the weights across processes (FSDP2) instead of copying them (DDP)"
    )
    trains.add_argument("--shard", action="store_true", help=about)
    about = "split each batch into K micro-batches to save memory; the gradients stay the same"
    trains.add_argument("--accumulate", type=whole_from_one, default=1, metavar="K", help=about)
    mode = trains.add_mutually_exclusive_group()
    mode.add_argument("--resume", action="store_true", help="continue an interrupted run")
    mode.add_argument("--force", action="store_true", help="replace an existing run")
    evaluates = add_command(commands, "evaluate", f"{module}evaluate_command")
    _add_options(evaluates, name, chosen.evaluate_options, TASK_OPTIONS)
    evaluates.add_argument(
        "--record", type=path_of, metavar="FILE", help="add the results to this file"
    )


def _add_model_commands(commands: argparse._SubParsersAction, name: str) -> None:
    """Add the commands that use, download and probe models."""
    chosen = TASK_OPTIONS[name]
    module = "course_lib.cli.model_commands:"
    uses = add_command(commands, chosen.verb, f"{module}use_command")
    tasks = [other for other, task in TASK_OPTIONS.items() if task.verb == chosen.verb]
    _add_options(uses, name, chosen.use_options, tasks)
    chats = add_command(commands, "chat", f"{module}chat_command")
    _add_arguments(chats, SAMPLING)
    chats.set_defaults(temperature=0.0)  # SmolLM2-135M answers worse with sampling
    for command in (uses, chats):
        about = "a model's folder or GGUF file, or the name of a downloaded model"
        command.add_argument("--weights", type=path_of, metavar="PATH", help=about)
    downloads = add_command(commands, "download", f"{module}download_command")
    models = json.loads(CATALOG.read_text(encoding="utf-8"))
    downloads.add_argument("name", choices=("multi30k", *models))
    about = "folder to download to (default: COURSE_DATA, or the course's own data folder)"
    downloads.add_argument("folder", nargs="?", type=path_of, metavar="DIR", help=about)
    probes = add_command(commands, "probe", f"{module}probe_command")
    probes.add_argument(
        "factory",
        metavar="MODULE:FUNCTION",
        help="a function that returns either the model or a dict of arguments for probe()",
    )
    about = "number of tokens in the vocabulary"
    probes.add_argument("--vocab-size", type=whole_from_one, metavar="V", help=about)
    probes.add_argument("--pad-id", type=int, metavar="ID", help="id of the padding token, if any")


def _add_options(
    command: argparse.ArgumentParser, name: str, own: Options, tasks: Collection[str]
) -> None:
    """Add the options that select one of the tasks, a run and a device, and the task's own."""
    chosen = TASK_OPTIONS[name]
    command.add_argument("--task", choices=tasks, default=name, help=TASK_HELP)
    usual = next(iter(chosen.sizes))
    about = "preset for the model and its training (default: %(default)s)"
    command.add_argument("--size", choices=chosen.sizes, default=usual, help=about)
    command.add_argument("--seed", type=int, help="random seed for training")
    _add_arguments(command, {f"--{setting}": about for setting, about in chosen.settings.items()})
    command.add_argument(
        "--data",
        type=path_of,
        metavar="DIR",
        help="folder with the corpora (default: COURSE_DATA, or the course's own data folder)",
    )
    command.add_argument(
        "--out", type=path_of, metavar="DIR", help="folder for the training run, if not the default"
    )
    threads = f"number of CPU threads (default: {chosen.threads or 'all'})"
    command.add_argument("--threads", type=int, default=chosen.threads, help=threads)
    command.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        help="device to compute on (default: cuda if there is a GPU)",
    )
    _add_arguments(command, own)


def _add_arguments(command: argparse.ArgumentParser, options: Options) -> None:
    """Add options to a command."""
    for option, arguments in options.items():
        command.add_argument(option, **arguments)


def announce(options: argparse.Namespace) -> None:
    """Say what the command is about to do; during training, only the main process prints."""
    if options.command in ("translate", "sample", "chat", "evaluate"):
        tell("Loading the model …")
    elif options.command == "train" and os.environ.get("RANK", "0") == "0":  # set by torchrun
        chosen = TASK_OPTIONS[options.task]
        what = chosen.described(getattr(options, chosen.variant))
        start = "Continuing to train" if options.resume else "Training"
        print(
            f"{start} {what}. This usually takes {chosen.sizes[options.size].duration}.", flush=True
        )
