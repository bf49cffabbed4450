"""The commands ``train`` and ``evaluate``, and functions that find an earlier training run."""

import argparse
import math
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from course_lib.cli.command_line import STOPPED, did_you_mean
from course_lib.cli.command_options import TASK_OPTIONS
from course_lib.data import draw_pairs, read_text, side_by_side
from course_lib.data.multi30k_files import CAPTIONS
from course_lib.evaluation import corpus_scores, exact_match
from course_lib.records.results import add_entry, read_entries
from course_lib.support.terminal import as_typed, paint, tell
from course_lib.tasks import language_model
from course_lib.tasks.language_model import PROMPTS, LanguageModel, TextGenerator
from course_lib.tasks.multi30k import Multi30k, RealTranslator, read_pairs, val_loss
from course_lib.tasks.numbers import Numbers, Translator
from course_lib.trainer import run_folder
from course_lib.trainer.distributed import World, init_distributed
from course_lib.trainer.hardware import (
    bfloat16_pays,
    check_memory,
    least_parameters,
    prepare_machine,
)
from course_lib.trainer.loop import graceful_shutdown, start, train
from course_lib.trainer.options import TrainingConfig, check_range
from course_lib.trainer.task import Pipeline, Task, TrainState

TASKS: dict[str, type[Task]] = {task.name: task for task in (Numbers, Multi30k, LanguageModel)}
MOST_PARTS = 1_024  # micro-batches of a step
MANY_PARAMETERS = 50_000_000  # building a larger model takes seconds
SAMPLE = 300  # characters generated for a record
HELD_OUT = 50  # numbers that a newly trained translator is tried on
FIRST = 80  # characters that a newly trained GPT writes
MOST_ALPHA = 10.0  # of the length penalty; beyond it, nothing but the length counts


def train_command(options: argparse.Namespace) -> int:
    """Train to the last step, or stop after the current step if the user asks to."""
    names = ("set", "data", "threads", "device", "accumulate", "shard")
    again = [*find_words(options, "train", *names), "--resume"]
    prepare(options)
    check_range("--accumulate", options.accumulate, 1, MOST_PARTS)
    check_range("--minutes", options.minutes or 0, 0, math.inf)
    out = _folder(options)
    with init_distributed(options.device) as world:
        with run_folder.locked(out) if world.is_main else nullcontext():
            state = _begin(options, out, world)
            if options.force and world.is_main:
                run_folder.let_replace(out)
            report = _describe(state, options, out) if world.is_main else None
            with graceful_shutdown(patient=world.size > 1) as stop:
                done = train(state, out, minutes=options.minutes, stop=stop, report=report)
    if world.is_main:
        end = f"step {state.step}, {state.seconds['wall'] / 60:.1f} minutes in total"
        print(f"trained to {end}: {out}" if done else f"stopped at {end}; nothing is lost")
        if done and world.size == 1:
            print(first_words(state.pipeline, options))
        use = first_try(options, state.pipeline.config)
        for words in [use, find_words(options, "evaluate", "data")] if done else [again]:
            print("Next:", paint(as_typed(*words), "cyan"))
    return STOPPED if stop() and not done and world.size == 1 else 0


def prepare(options: argparse.Namespace) -> None:
    """Set the number of threads and the device, by default all threads and a GPU if present."""
    if options.threads is None:
        options.threads = torch.get_num_threads()
    if options.device is None:
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    prepare_machine(options.threads, options.device)


def _describe(
    state: TrainState, options: argparse.Namespace, out: Path
) -> Callable[[dict[str, float]], None] | None:
    """Describe the run; return a function that prints measurements, or None in a terminal."""
    total = state.task.steps
    parameters = sum(p.numel() for p in state.pipeline.model.parameters())
    threads = f"the CPU with {options.threads} thread" + "s" * (options.threads > 1)
    device = "the GPU" if options.device == "cuda" else threads
    print(f"The model has {parameters:,} parameters, and trains for {total:,} steps on {device}.")
    print(f"It will be saved in {out}", flush=True)

    def report(line: dict[str, float]) -> None:
        """Print the losses from a measurement."""
        losses = f"train loss {line['train_loss']:.3f}, val loss {line['val_loss']:.3f}"
        print(f"step {line['step']} of {total}: {losses}", flush=True)

    return None if sys.stderr.isatty() else report


def _begin(options: argparse.Namespace, out: Path, world: World) -> TrainState:
    """Start a training run, or continue the one in the folder."""
    checkpoint = run_folder.read_checkpoint(out) if options.resume else None
    if not (options.resume or options.force) and run_folder.find_checkpoint(out):
        raise ValueError(
            f"{out} contains a training run; --resume continues it, and --force replaces it"
        )
    task = TASKS[options.task]
    config_class = task.pipeline_class.config_class
    settings = _settings(options)
    if config_class.bfloat16 and "bfloat16" not in settings:
        if checkpoint:
            fast = bool(checkpoint.metadata["config"].get("bfloat16"))
        else:
            fast = options.device == "cuda" or bfloat16_pays()  # today's GPUs have it
        settings["bfloat16"] = world.any_rank(fast, options.device)  # all agree
    config = config_class(**settings)
    check_memory(config, vocab_size=0)  # before the data, which may take long to prepare
    if world.is_main and (count := least_parameters(config)) > MANY_PARAMETERS:
        print(f"Building a model with at least {count:,} parameters …", flush=True)
    return start(
        task,
        config,
        checkpoint,
        data=options.data,
        device=options.device,
        world=world,
        sharded=options.shard,
        accumulate=options.accumulate,
    )


def evaluate_command(options: argparse.Namespace) -> int:
    """Evaluate a model, print the results, and record them if asked to."""
    pipeline, metadata = load(options)
    names = [name.strip("-") for name in TASK_OPTIONS[options.task].evaluate_options]
    about = metadata["config"] | {name: getattr(options, name) for name in names}
    if options.record:
        for entry in read_entries(options.record):  # before the work, not after it
            if not about.keys() <= entry.keys():
                raise ValueError(f"{options.record} is the record of a different task")
    evaluate: dict[str, Callable] = {"numbers": evaluate_numbers, "multi30k": evaluate_sentences}
    results = evaluate.get(options.task, evaluate_text)(pipeline, options)
    tell(f"Next: {as_typed(*first_try(options, pipeline.config))}")
    if options.record:
        entry = {
            **about,
            "history": metadata["history"],
            **results,
            "steps": metadata["step"],
            "parameters": sum(p.numel() for p in pipeline.model.parameters()),
            "minutes": {name: seconds / 60 for name, seconds in metadata["seconds"].items()},
            "machine": metadata["machine"],
        }
        add_entry(options.record, entry, lambda entry: [entry[name] for name in about])
    return 0


def evaluate_numbers(translator: Translator, options: argparse.Namespace) -> dict[str, Any]:
    """Count exact matches on numbers from the test split."""
    config = translator.config
    sources, references = zip(*draw_pairs("test", options.count, to=config.to), strict=True)
    exact = exact_match(translator.translate(sources), references)
    print(
        f"{config.to}, seed {config.seed}: exact match {exact:.3f} on {options.count} numbers "
        "from the test split"
    )
    return {"exact_match": exact}


def search_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options for a beam search."""
    check_range("alpha", options.alpha, 0.0, MOST_ALPHA)
    return dict(beam_size=options.beam, alpha=options.alpha)


def evaluate_sentences(translator: RealTranslator, options: argparse.Namespace) -> dict[str, Any]:
    """Translate a split without teacher forcing, and print BLEU and chrF."""
    search = search_options(options)
    pairs = read_pairs(translator.config, options.split, options.data)
    sources, references = map(list, zip(*pairs, strict=True))
    results: dict[str, Any] = corpus_scores(translator.translate(sources, **search), references)
    for name in ("bleu", "bleu_lower", "chrf"):
        print(f"{name} {results[name]:.2f}  {results[f'{name}_signature']}")
    print(f"{len(pairs)} sentences of {options.split}")
    captions = [pair[translator.config.direction == "en-de"] for pair in CAPTIONS]
    translations = translator.translate(captions, **search)
    results["captions"] = [list(pair) for pair in zip(captions, translations, strict=True)]
    results["loss"] = val_loss(translator, pairs)
    if options.split != "val" or options.average > 1:
        results["history"] = []  # a record contains it once
    return results


def evaluate_text(generator: TextGenerator, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the loss on the whole validation part, and generate a sample.

    Raises ValueError if the text does not have exactly the characters that the model knows.
    """
    config = generator.config
    text = read_text(config.text, options.data)
    if text.characters.characters != generator.tokenizer.characters:
        raise ValueError("this model was trained on different text, with different characters")
    windows = side_by_side(text.val, config.max_len)
    loss = language_model.loss_on(generator.model, windows)
    every = f"all {len(windows):,} consecutive windows of {config.max_len}"
    print(f"val loss {loss:.4f} nats per character, on {every}")
    characters = {"train": len(text.train), "val": len(text.val)}
    (sample,) = generator.generate(PROMPTS[config.text], SAMPLE, seed=config.seed)
    return {"val_loss": loss, "characters": characters, "sample": sample}


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Gather the hyperparameters: the preset's, overridden by those set with options."""
    task = TASKS[options.task]
    others: dict[str, Any] = {}
    for text in getattr(options, "set", []):
        name, value = read_setting(task.pipeline_class.config_class, text)
        (vars(options) if name in _own_names(options) else others)[name] = value
    own = {name: getattr(options, name) for name in _own_names(options)}
    own = {name: value for name, value in own.items() if value is not None}
    return task.sizes[options.size] | own | others


def _own_names(options: argparse.Namespace) -> list[str]:
    """List the hyperparameters that have their own option."""
    return ["seed", *TASK_OPTIONS[options.task].settings]


def read_setting(config_class: type[TrainingConfig], text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE; raise ValueError if there is no such field, or the type is wrong."""
    name, _, value = text.partition("=")
    types: dict[str, type] = {field.name: type(field.default) for field in fields(config_class)}
    if name not in types:
        near = did_you_mean(name, types)
        raise ValueError(f"--set {text}: {name!r} is not one of {', '.join(types)}{near}")
    truths = {"True": True, "False": False}
    try:
        return name, truths[value] if types[name] is bool else types[name](value)
    except (KeyError, ValueError):
        raise ValueError(f"--set {text}: {name} must be of type {types[name].__name__}") from None


def _folder(options: argparse.Namespace) -> Path:
    """Return the folder of a training run: the user's choice, or the default."""
    task = TASKS[options.task]
    config = task.pipeline_class.config_class(**_settings(options))
    return options.out or run_folder.checkpoints_folder() / task.folder_name(config, options.size)


def find_words(options: argparse.Namespace, verb: str, *names: str) -> list[str]:
    """Return a command for the same training run, with the named options that the user has set."""
    words = [verb] if options.task == "numbers" else [verb, "--task", options.task]
    for name in ("size", *_own_names(options), "out", *names):
        value = getattr(options, name)
        if value != options.parser.get_default(name):
            for one in value if isinstance(value, list) else [value]:
                words += [f"--{name}"] if one is True else [f"--{name}", str(one)]
    return words


def first_words(pipeline: Pipeline, options: argparse.Namespace) -> str:
    """Show what a newly trained model writes, and how many of a few held-out numbers are right."""
    if isinstance(pipeline, TextGenerator):
        prompt = PROMPTS[pipeline.config.text]
        return f"it writes: {pipeline.generate(prompt, FIRST)[0]!r}"
    assert isinstance(pipeline, Translator)
    example = first_try(options, pipeline.config)[-1]
    if isinstance(pipeline, RealTranslator):
        return f"it translates {example!r} as {pipeline.translate([example])[0]!r}"
    sources, references = zip(*draw_pairs("test", HELD_OUT, to=pipeline.config.to), strict=True)
    *written, first = pipeline.translate([*sources, example])
    right = sum(map(str.__eq__, written, references))
    return f"{right} of {HELD_OUT} held-out numbers are right; {example} becomes {first!r}"


def first_try(options: argparse.Namespace, config: TrainingConfig) -> list[str]:
    """Return a command that uses the trained model."""
    chosen = TASK_OPTIONS[options.task]
    example = chosen.examples.get(getattr(config, chosen.variant))
    return [*find_words(options, chosen.verb), *([example] if example else [])]


def load(options: argparse.Namespace) -> tuple[Pipeline, dict[str, Any]]:
    """Load the trained model and its metadata; optionally average the last epochs' weights."""
    prepare(options)
    task = TASKS[options.task]
    out = _folder(options)
    if not run_folder.find_checkpoint(out):
        first = as_typed(*find_words(options, "train", "data"))
        raise ValueError(f"there is no checkpoint in {out}: first run `{first}`")
    pipeline, metadata = run_folder.load_pipeline(task.pipeline_class, out)
    for name in _own_names(options):
        trained, asked = getattr(pipeline.config, name), getattr(options, name)
        if asked not in (None, trained):
            raise ValueError(f"{out} was trained with --{name} {trained}, not {asked}")
    average = getattr(options, "average", 1)
    if average > 1:
        run_folder.load_average(out, average, pipeline.model)
    pipeline.model.to(options.device).eval()
    return pipeline, metadata
