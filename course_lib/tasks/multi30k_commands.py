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
    RealConfig,
    RealTranslator,
    read_pairs,
    score,
)
from course_lib.tasks.multi30k_record import SETTINGS, add_to_record, written_captions
from course_lib.tasks.multi30k_training import Multi30k, val_loss
from course_lib.tasks.train_command import add_training_options, folder_of, run_training
from course_lib.trainer.averaging import average_of_last
from course_lib.trainer.checkpoint import explaining
from course_lib.trainer.distributed import World
from course_lib.trainer.machine import add_machine_options, prepare_machine
from course_lib.trainer.options import check_between
from course_lib.trainer.precision import bfloat16_pays
from course_lib.trainer.run_folder import is_kept, read_kept

MOST_ALPHA = 10  # of the length penalty; beyond it, nothing but the length counts
SLICE = dict(task="multi30k", num_pairs=300, vocab_size=1_000)  # the smoke size, where data are


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Describe train, translate and evaluate for real sentences."""
    trains = commands.add_parser("train", help="train on Multi30k (an hour of two cores)")
    trains.set_defaults(run=train_command)
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
            add_machine_options(command)
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


def download_command(options: argparse.Namespace) -> int:
    """Get what is missing, and say how to use it."""
    folder = download_multi30k(options.folder)
    print(f"Multi30k is in {folder}; now: course train --task multi30k --data {options.folder}")
    return 0


def train_command(options: argparse.Namespace) -> int:
    """Train, resumably, with a progress bar, checkpoints and a log."""
    return run_training(options, Multi30k, _config, _folder(options), lambda *_: None)


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
    check_between(options, 0, MOST_ALPHA, "alpha")
    out = _folder(options)
    if not is_kept(out):
        where = f" --out {out}" if options.out else f" --size {options.size}"
        raise ValueError(
            f"there is no translator in {out}; run: course train --task multi30k "
            f"--direction {options.direction} --seed {options.seed}{where}"
        )
    translator, content = read_kept(RealTranslator, out)
    average = average_of_last(out, options.average)
    with explaining(out, translator.what):
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
    """Say where a training is kept."""
    return folder_of(options, f"multi30k-{options.size}-{options.direction}-seed{options.seed}")


def _fast_in_bfloat16(device: str) -> bool:
    """Measure it on a CPU; a GPU that trains a Transformer today has it."""
    return device == "cuda" or bfloat16_pays()
