"""Round the weights of a trained translator to int8, and measure its score, size and speed."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # everything is measured on one core

import argparse
import io
import logging
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from timing import Spread, compared, in_turns
from torch import nn

from course_lib.data import draw_pairs
from course_lib.evaluation import corpus_scores, exact_match
from course_lib.records.results import add_entry
from course_lib.tasks.multi30k import RealTranslator, read_pairs
from course_lib.tasks.numbers import Translator, load_or_train
from course_lib.trainer.hardware import describe_machine, one_thread
from course_lib.trainer.run_folder import load_pipeline

RECORD = Path(__file__).with_name("int8.json")
MISSING = 'torchao is missing; run: .venv/bin/python -m pip install -c constraints.txt -e ".[int8]"'
PLAIN = "float32"
ROUNDS = 7
TIMED = 64  # sentences
SEARCHES = {"alone": (1, 1), "greedy": (1, 64), "beam 4": (4, 64)}  # beams, sentences at once
Pairs = list[tuple[str, str]]  # a source and its reference
Rows = dict[str, dict[str, float | Spread]]


def rounded(translator: Translator) -> dict[str, Translator]:
    """Return a translator, and four copies in which ``nn.Linear`` layers are rounded."""
    try:
        from torchao import quantization
    except ImportError:
        sys.exit(MISSING)
    model = translator.model.eval()
    weights, weights_and_inputs, output_layer = (deepcopy(model) for _ in range(3))
    inputs_too = quantization.Int8DynamicActivationInt8WeightConfig()
    quantization.quantize_(weights, quantization.Int8WeightOnlyConfig())
    quantization.quantize_(weights_and_inputs, inputs_too)
    quantization.quantize_(output_layer, inputs_too, filter_fn=lambda _, name: name == "output")
    models = {
        PLAIN: model,
        "weights": weights,
        "products": weights_and_inputs,
        "output": output_layer,
        "dynamic": torch.ao.quantization.quantize_dynamic(model, {nn.Linear}),
    }
    return {name: replace(translator, model=model) for name, model in models.items()}


def megabytes(model: nn.Module) -> float:
    """Measure the size of a saved model; a matrix that two layers share counts once."""
    saved = io.BytesIO()
    torch.save(model.state_dict(), saved)
    return round(saved.tell() / 1e6, 2)


def measure_quality(
    translators: dict[str, Translator], pairs: Pairs, score: Callable[[list[str], list[str]], float]
) -> Rows:
    """Measure each translator's score, size, and fraction of translations equal to float32's."""
    sources = [source for source, _ in pairs]
    references = [reference for _, reference in pairs]
    translations = {name: each.translate(sources) for name, each in translators.items()}
    return {
        name: {
            "score": score(translations[name], references),
            "same": exact_match(translations[name], translations[PLAIN]),
            "megabytes": megabytes(translator.model),
        }
        for name, translator in translators.items()
    }


def translate_groups(translator: Translator, groups: list[list[str]], beam_size: int) -> None:
    """Translate groups of sentences, one group after another."""
    for group in groups:
        translator.translate(group, beam_size=beam_size)


def add_speed(rows: Rows, translators: dict[str, Translator], sources: list[str]) -> None:
    """Add each translator's speed relative to float32 to its row, for every kind of search."""
    for search, (beam_size, size) in SEARCHES.items():
        groups = [sources[start : start + size] for start in range(0, len(sources), size)]
        actions = [
            partial(translate_groups, each, groups, beam_size) for each in translators.values()
        ]
        seconds = in_turns(actions, ROUNDS)
        for name, measured in zip(translators, seconds, strict=True):
            rows[name][search] = compared("int8", name, measured, seconds[0])["ratio"]


def measure(folder: Path | None, data: Path | None) -> dict[str, object]:
    """Measure the number-word translator, or the caption translator in a training run's folder."""
    if folder is None:
        translators, pairs = rounded(load_or_train()), draw_pairs("test", 1_000)
        rows = measure_quality(translators, pairs, exact_match)
    else:
        translator, _ = load_pipeline(RealTranslator, folder)
        translators, pairs = rounded(translator), read_pairs(translator.config, "val", data)
        rows = measure_quality(
            translators, pairs, lambda *texts: float(corpus_scores(*texts)["bleu"])
        )
        add_speed(rows, translators, [source for source, _ in pairs[:TIMED]])
    task = "multi30k" if folder else "numbers"
    machine = describe_machine("cpu")
    return {"task": task, "machine": machine, "sentences": len(pairs), "rows": rows}


def main() -> int:
    """Parse the command line, measure, and record the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--multi30k", type=Path, metavar="FOLDER", help="folder of a training run")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the Multi30k folder")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # torchao warns that its GPU kernels do not load
    warnings.simplefilter("ignore")  # quantize_dynamic is deprecated
    try:
        with one_thread(), torch.no_grad():
            entry = measure(options.multi30k, options.data)
    except ValueError as error:  # for example, a folder without a training run
        parser.error(str(error))
    print(entry)
    add_entry(RECORD, entry, lambda entry: [entry["task"]])
    return 0


if __name__ == "__main__":
    sys.exit(main())
