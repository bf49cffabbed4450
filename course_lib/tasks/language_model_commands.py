"""``course … --task gpt``: train a GPT on a text, let it write, and measure it."""

import argparse
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from course_lib.data import Text
from course_lib.tasks.language_model import (
    LAST_SEED,
    PROMPTS,
    SIZES,
    TextGenerator,
    TextGeneratorConfig,
    read_text,
)
from course_lib.tasks.language_model_record import add_to_record
from course_lib.tasks.language_model_scores import (
    caching_is_exact,
    loss_on,
    share_that_parses,
    side_by_side,
)
from course_lib.tasks.language_model_training import LanguageModel
from course_lib.tasks.train_command import add_training_options, folder_of, run_training
from course_lib.trainer.machine import add_machine_options, describe_machine, prepare_machine
from course_lib.trainer.options import whole_from_one
from course_lib.trainer.run_folder import is_kept, read_kept
from course_lib.trainer.task import TrainState

SAMPLE = 300
COPIES = 20  # characters written for a record, and texts to count the lines of
COLDEST = 1e-3
HOTTEST = 1e3  # beyond, logits leave what a float can hold


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Describe train and evaluate for a GPT."""
    trains = commands.add_parser("train", help="train a GPT on a text (2 minutes of one core)")
    trains.set_defaults(run=train_command)
    trains.add_argument("--steps", type=whole_from_one, help="the last step")
    trains.add_argument("--record", type=Path, metavar="FILE", help="add the result to it")
    add_training_options(trains, TextGeneratorConfig)

    evaluates = commands.add_parser("evaluate", help="measure the loss on all of val")
    evaluates.set_defaults(run=evaluate_command)
    add_machine_options(evaluates)

    for command in (trains, evaluates):
        command.add_argument("--data", type=Path, metavar="DIR", help="texts, or COURSE_DATA")
        command.add_argument("--task", choices=("gpt",), help="this one")
        _add_which(command)


def add_sample(commands: argparse._SubParsersAction) -> None:
    """Describe sample, which only a GPT can."""
    samples = commands.add_parser("sample", help="go on with a text, with --task gpt")
    samples.set_defaults(run=sample_command)
    samples.add_argument("--task", help="gpt: it is needed")
    samples.add_argument("--prompt", metavar="TEXT", help="how it begins")
    samples.add_argument("--tokens", type=whole_from_one, default=300, help="characters to write")
    samples.add_argument("--temperature", type=float, default=0.8)
    samples.add_argument("--top-k", type=whole_from_one, metavar="K", help="the K likeliest only")
    samples.add_argument("--top-p", type=float, metavar="SHARE", help="the likeliest up to it")
    samples.add_argument("--draw", type=int, default=0, help="another number, another text")
    _add_which(samples)
    add_machine_options(samples)


def _add_which(command: argparse.ArgumentParser) -> None:
    """Describe which writer is meant, and what computes it."""
    command.add_argument("--size", choices=SIZES, default="cpu")
    command.add_argument("--text", choices=PROMPTS, default="library")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--out", type=Path, metavar="DIR", help="a folder of your own")


def train_command(options: argparse.Namespace) -> int:
    """Train, resumably, with a progress bar, checkpoints and a log; then say what came out."""
    config = _config(options)
    options.text = config.text
    options.seed = config.seed  # the folder's name holds them
    report = partial(_report, record=options.record)
    return run_training(options, LanguageModel, lambda *_: config, _folder(options), report)


def _config(options: argparse.Namespace) -> TextGeneratorConfig:
    """Put together what is asked for."""
    asked = dict(text=options.text, seed=options.seed)
    asked |= {} if options.steps is None else dict(steps=options.steps)
    return TextGeneratorConfig(**SIZES[options.size] | asked | dict(options.set))


def _report(state: TrainState, writer: TextGenerator, record: Path | None) -> None:
    """Print what came out, and record it if asked to."""
    text = state.task.text
    loss = _print_loss(writer, text)
    minutes = _minutes(state)
    print(f"parameters {_parameters(writer):,}")
    print(f"minutes {minutes['wall']:.1f} by the clock, {minutes['cpu']:.1f} of processor time")
    print(f"cached sampling equals uncached: {caching_is_exact(writer, text.val)}")
    if record:
        add_to_record(record, _entry(state, writer, loss))


def _print_loss(writer: TextGenerator, text: Text) -> float:
    """Measure the loss on all of val, print and return it."""
    windows = side_by_side(text.val, writer.config.max_len)
    loss = loss_on(writer.model, windows)
    every = f"all {len(windows):,} windows of {writer.config.max_len}, side by side"
    print(f"val loss {loss:.4f} nats per character, on {every}")
    return loss


def _parameters(writer: TextGenerator) -> int:
    """Count parameters, shared ones once."""
    return sum(parameter.numel() for parameter in writer.model.parameters())


def _minutes(state: TrainState) -> dict[str, float]:
    """Return the time spent by each clock, in minutes."""
    return {name: seconds / 60 for name, seconds in state.seconds.items()}


def _entry(state: TrainState, writer: TextGenerator, loss: float) -> dict[str, Any]:
    """Say all that somebody needs who wants to repeat it."""
    config, text = writer.config, state.task.text
    of_python = config.text == "library"
    written = writer.generate(
        PROMPTS[config.text], SAMPLE, copies=COPIES if of_python else 1, seed=config.seed
    )
    return {
        "settings": asdict(config),
        "val_loss": loss,
        "parameters": _parameters(writer),
        "characters": {"train": len(text.train), "val": len(text.val)},
        "minutes": _minutes(state),
        "machine": describe_machine(writer.device.type),
        "history": state.history,
        "sample": written[0],
        **({"parse_rate": share_that_parses(written)} if of_python else {}),
    }


def sample_command(options: argparse.Namespace) -> int:
    """Go on with a text."""
    if options.task != "gpt":
        raise ValueError("only a GPT goes on with a text; add --task gpt")
    if not COLDEST <= options.temperature <= HOTTEST:
        raise ValueError(f"--temperature {options.temperature} is not in [{COLDEST}, {HOTTEST}]")
    writer = _kept(options)
    prompt = PROMPTS[writer.config.text] if options.prompt is None else options.prompt
    how = dict(temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)
    print(writer.generate(prompt, options.tokens, seed=options.draw % (LAST_SEED + 1), **how)[0])
    return 0


def evaluate_command(options: argparse.Namespace) -> int:
    """Measure the loss on all of val."""
    writer = _kept(options)
    text = read_text(writer.config.text, options.data)
    if text.characters.characters != writer.characters.characters:
        raise ValueError("this writer learned from another text: it has other characters")
    _print_loss(writer, text)
    return 0


def _kept(options: argparse.Namespace) -> TextGenerator:
    """Load the writer that is meant, or say how to train it."""
    prepare_machine(options)
    out = _folder(options)
    if not is_kept(out):
        where = f" --out {out}" if options.out else ""
        raise ValueError(
            f"there is no writer in {out}; run: course train --task gpt --size {options.size} "
            f"--text {options.text} --seed {options.seed}{where}"
        )
    writer, _ = read_kept(TextGenerator, out)
    writer.model.to(options.device)
    return writer


def _folder(options: argparse.Namespace) -> Path:
    """Say where a training is kept."""
    return folder_of(options, f"gpt-{options.size}-{options.text}-seed{options.seed}")
