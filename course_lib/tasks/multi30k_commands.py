"""``course … --task multi30k``: train, use and measure a translator of real sentences."""

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from course_lib.data.multi30k_files import DIRECTIONS, LINES, download_multi30k
from course_lib.tasks.multi30k import (
    SIZES,
    Pairs,
    RealConfig,
    RealTranslator,
    read_pairs,
    score,
)
from course_lib.tasks.multi30k_checkpoint import LAST, WHAT, TrainState, is_kept, kept_translator
from course_lib.tasks.multi30k_record import SETTINGS, add_to_record, written_captions
from course_lib.tasks.multi30k_training import start, train_run, val_loss
from course_lib.tasks.numbers import FOLDER
from course_lib.trainer.averaging import average_of_last, kept_weights
from course_lib.trainer.checkpoint import explaining
from course_lib.trainer.distributed import World, init_distributed, is_restarted, job
from course_lib.trainer.machine import add_machine_options, prepare_machine
from course_lib.trainer.options import add_training_options
from course_lib.trainer.precision import bfloat16_pays
from course_lib.trainer.sharded_checkpoint import find_sharded, remove_sharded
from course_lib.trainer.signals import STOPPED, graceful_shutdown, stopped_at_once

CLOCK = "cpu: processor time divided by threads, fair on a shared machine"
SHARD = "under torchrun: no process holds all weights (FSDP2); else each has a copy (DDP)"
SLICE = dict(task="multi30k", num_pairs=300, vocab_size=1_000)  # the smoke size, where data are


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Describe train, translate and evaluate for real sentences."""
    trains = commands.add_parser("train", help="train on Multi30k (an hour of two cores)")
    trains.set_defaults(run=train_command)
    trains.add_argument("--minutes", type=float, help="stop, to be resumed, after so many in all")
    trains.add_argument("--clock", choices=("wall", "cpu"), default="wall", help=CLOCK)
    trains.add_argument("--shard", action="store_true", help=SHARD)
    add_training_options(trains, RealConfig)

    translates = commands.add_parser("translate", help="translate a sentence")
    translates.set_defaults(run=translate_command)
    translates.add_argument("text", nargs="+", help='such as "Ein Mann fährt Fahrrad."')

    evaluates = commands.add_parser("evaluate", help="translate a split, and measure by sacrebleu")
    evaluates.set_defaults(run=evaluate_command)
    evaluates.add_argument("--split", choices=[*LINES][1:], default="val")
    evaluates.add_argument("--record", type=Path, metavar="FILE", help="add the result to it")

    for command in (trains, translates, evaluates):
        _add_which(command)
        if command is not trains:
            command.add_argument("--average", type=int, default=1, help="of so many last epochs")
            command.add_argument("--beam", type=int, default=4, help="1 is greedy")
            command.add_argument("--alpha", type=float, default=0.6, help="of the length penalty")


def _add_which(command: argparse.ArgumentParser) -> None:
    """Describe which translator is meant, and what computes it."""
    command.add_argument("--task", choices=("multi30k",), help="this one")
    command.add_argument("--size", choices=SIZES, default="laptop")
    command.add_argument("--direction", choices=DIRECTIONS, default="de-en")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--out", type=Path, metavar="DIR", help="a folder of your own")
    command.add_argument("--data", type=Path, metavar="DIR", help="Multi30k, or COURSE_DATA")
    add_machine_options(command)


def add_download(commands: argparse._SubParsersAction) -> None:
    """Describe the only command that needs a network."""
    downloads = commands.add_parser("download", help="get a corpus once, checked by sha256")
    downloads.set_defaults(run=download_command)
    downloads.add_argument("corpus", choices=("multi30k",))
    downloads.add_argument("folder", type=Path, metavar="DIR")


def download_command(options: argparse.Namespace) -> int:
    """Get what is missing, and say how to use it."""
    folder = download_multi30k(options.folder)
    print(f"Multi30k is in {folder}; now: course train --task multi30k --data {options.folder}")
    return 0


def train_command(options: argparse.Namespace) -> int:
    """Train, resumably, with a progress bar, checkpoints and a log."""
    try:
        return _train(options)
    except KeyboardInterrupt:  # before the first step, or for the second time
        folder = _folder(options)
        return stopped_at_once(find_sharded(folder) or folder / LAST)


def _train(options: argparse.Namespace) -> int:
    """Train to the end, or to the end of the step at which somebody asks to stop."""
    prepare_machine(options)
    with init_distributed(options.device) as world:
        run, val = _begin(options, world)
        limit = dict(minutes=options.minutes, clock=options.clock)
        with graceful_shutdown(patient=world.size > 1) as stop:
            done = train_run(run, val, _folder(options), stop=stop, **limit)
        if world.is_main:
            _tell(run, done, _folder(options))
    return STOPPED if stop() and not done and world.size == 1 else 0


def _begin(options: argparse.Namespace, world: World) -> tuple[TrainState, Pairs]:
    """Start or go on; what is replaced is removed as soon as nothing can be wrong any more."""
    out = _folder(options)
    asked = options.resume or (is_restarted() and is_kept(out))
    kept, content = kept_translator(out) if asked else (None, {})
    resume = options.resume or content.get("job") == job()
    if is_kept(out) and not (resume or options.force):
        raise ValueError(f"{out} keeps a training; --resume goes on from it, --force starts anew")
    config = _config(options, world, kept.config if resume else None)
    how = dict(data=options.data, device=options.device, world=world, sharded=options.shard)
    run, val = start(config, out, anew=not resume, **how)
    world.wait()  # all have read
    if world.is_main:
        out.mkdir(parents=True, exist_ok=True)
    if world.is_main and not resume:
        for old in [*kept_weights(out), out / LAST, out / "log.txt"]:
            old.unlink(missing_ok=True)
        remove_sharded(out)
    world.wait()
    return run, val


def _tell(run: TrainState, done: bool, out: Path) -> None:
    """Say how it ended."""
    spent = f"{run.seconds['wall'] / 60:.1f} minutes in all"
    if done:
        epochs = run.translator.config.epochs
        print(f"trained for {epochs} epochs, {run.step} steps, {spent}: {out}")
    else:
        print(f"stopped at step {run.step}, {spent}; go on with the same command and --resume")


def translate_command(options: argparse.Namespace) -> int:
    """Translate one text."""
    translator, _ = _averaged(options)
    text = " ".join(" ".join(options.text).split())
    print(translator.translate([text], beam_size=options.beam, alpha=options.alpha)[0])
    return 0


def evaluate_command(options: argparse.Namespace) -> int:
    """Translate a split freely, print BLEU and chrF, and record them if asked to."""
    translator, content = _averaged(options)
    sources, references = map(list, zip(*_pairs(options, translator.config), strict=True))
    begin = time.monotonic()
    written = translator.translate(sources, beam_size=options.beam, alpha=options.alpha)
    seconds = time.monotonic() - begin
    result = score(written, references)
    for name in ("bleu", "bleu_lower", "chrf"):
        print(f"{name} {result[name]:.2f}  {result[f'{name}_signature']}")
    print(f"{len(written)} sentences of {options.split} in {seconds:.0f} s")
    if options.record:
        losses = dict(loss=val_loss(translator, list(zip(sources, references, strict=True))))
        add_to_record(options.record, _entry(options, content, translator, result | losses))
    return 0


def _entry(
    options: argparse.Namespace,
    content: dict[str, Any],
    translator: RealTranslator,
    result: dict[str, Any],
) -> dict[str, Any]:
    """Say all that somebody needs who wants to repeat it."""
    config = content["config"]
    write = partial(translator.translate, beam_size=options.beam, alpha=options.alpha)
    once = options.split == "val" and options.average == 1  # how it learned stands once in a record
    return {
        **{name: config[name] for name in SETTINGS},
        "split": options.split,
        "average": options.average,
        "beam_size": options.beam,
        "alpha": options.alpha,
        **result,
        "parameters": sum(p.numel() for p in translator.model.parameters()),
        "steps": content["step"],
        "minutes": {name: seconds / 60 for name, seconds in content["seconds"].items()},
        "machine": content["machine"],
        "config": config,
        "captions": written_captions(config["direction"], write),
        "history": content["history"] if once else [],
    }


def _averaged(options: argparse.Namespace) -> tuple[RealTranslator, dict[str, Any]]:
    """Load a translator with the mean of its last epochs, and its checkpoint."""
    prepare_machine(options)
    out = _folder(options)
    if not is_kept(out):
        where = f" --out {out}" if options.out else f" --size {options.size}"
        raise ValueError(
            f"there is no translator in {out}; run: course train --task multi30k "
            f"--direction {options.direction} --seed {options.seed}{where}"
        )
    translator, content = kept_translator(out)
    average = average_of_last(out, options.average)
    with explaining(out, WHAT):
        translator.model.load_state_dict(average)
    translator.model.to(options.device).eval()
    return translator, content


def _pairs(options: argparse.Namespace, config: RealConfig) -> list[tuple[str, str]]:
    """Read the split; the test set says that it was read."""
    if options.split != "val":
        print("the test set is for the last report: choose on --split val", file=sys.stderr)
    return read_pairs(config, options.split, options.data)


def _config(options: argparse.Namespace, world: World, kept: RealConfig | None) -> RealConfig:
    """Put together what is asked for; bfloat16 where it pays here, or as it was begun."""
    chosen = SIZES[options.size] | dict(seed=options.seed, direction=options.direction)
    if options.size == "smoke" and (options.data or os.environ.get("COURSE_DATA")):
        chosen |= SLICE
    chosen |= dict(options.set)
    if "bfloat16" not in chosen:
        fast = not kept and _fast_in_bfloat16(options.device)
        chosen["bfloat16"] = kept.bfloat16 if kept else world.any_rank(fast, options.device)
    return RealConfig(**chosen)


def _folder(options: argparse.Namespace) -> Path:
    """Say where a run is kept: in a folder of one's own, or beside the other checkpoints."""
    base = Path(os.environ.get("COURSE_CHECKPOINTS") or FOLDER)
    name = f"multi30k-{options.size}-{options.direction}-seed{options.seed}"
    return options.out or base / name


def _fast_in_bfloat16(device: str) -> bool:
    """Measure it on a CPU; a GPU that trains a Transformer today has it."""
    return device == "cuda" or bfloat16_pays()
