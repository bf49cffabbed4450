"""Round the weights of a trained translator to one byte: measure its score, size and speed."""

import argparse
import io
import logging
import sys
import warnings
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from timing import compared, in_turns
from torch import nn

from course_lib.data import draw_pairs
from course_lib.evaluation import corpus_scores, exact_match
from course_lib.tasks.multi30k import RealTranslator, read_pairs
from course_lib.tasks.numbers import Translator, load_or_train
from course_lib.trainer.hardware import describe_machine, one_thread
from course_lib.trainer.results import add_entry
from course_lib.trainer.run_folder import load_pipeline

RECORD = Path(__file__).with_name("int8.json")
MISSING = 'torchao is missing; run: .venv/bin/python -m pip install -c constraints.txt -e ".[int8]"'
ROUNDS = 7
SENTENCES = 64  # that are timed
SEARCHES = {"alone": (1, 1), "greedy": (1, 64), "beam 4": (4, 64)}  # beams, sentences at once
Rows = dict[str, dict[str, Any]]


def rounded(model: nn.Module) -> dict[str, nn.Module]:
    """Return a model as it is, and copies whose ``nn.Linear`` layers are rounded in four ways."""
    try:
        from torchao import quantization as ao
    except ImportError:
        sys.exit(MISSING)
    inputs_too = ao.Int8DynamicActivationInt8WeightConfig()
    weights, products, output = (deepcopy(model) for _ in range(3))
    ao.quantize_(weights, ao.Int8WeightOnlyConfig())
    ao.quantize_(products, inputs_too)
    ao.quantize_(output, inputs_too, filter_fn=lambda _, name: name == "output")
    dynamic = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    return dict(float32=model, weights=weights, products=products, output=output, dynamic=dynamic)


def megabytes(model: nn.Module) -> float:
    """Weigh what is saved of a model; a matrix that two layers share counts once."""
    saved = io.BytesIO()
    torch.save(model.state_dict(), saved)
    return round(saved.tell() / 1e6, 2)


def translate_all(translator: Translator, groups: list[list[str]], **how: int) -> None:
    """Translate groups of sentences, one group after another."""
    for group in groups:
        translator.translate(group, **how)


def measure(ways: dict[str, Translator], pairs: list[tuple[str, str]], real: bool) -> Rows:
    """Translate all in every way; return scores, sizes, and speeds beside float32."""
    sources, references = map(list, zip(*pairs, strict=True))
    rows: Rows = {}
    written = {name: way.translate(sources) for name, way in ways.items()}  # and warms up
    for name, texts in written.items():
        found = corpus_scores(texts, references)["bleu"] if real else exact_match(texts, references)
        same = exact_match(texts, written["float32"])
        rows[name] = dict(score=found, same=same, megabytes=megabytes(ways[name].model))
    for search, (beam, size) in SEARCHES.items():
        if real or beam == 1:
            how = {"beam_size": beam} if real else {}
            groups = [sources[start : start + size] for start in range(0, SENTENCES, size)]
            acts = [partial(translate_all, way, groups, **how) for way in ways.values()]
            spent = list(zip(*in_turns(acts, ROUNDS), strict=True))
            for name, times in zip(ways, spent, strict=True):
                rows[name][search] = compared("int8", name, times, spent[0])["ratio"]
    return rows


def main() -> int:
    """Load a translator, print a line for each way, and record it."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--multi30k", type=Path, metavar="FOLDER", help="captions: a training")
    reader.add_argument("--data", type=Path, metavar="DIR", help="Multi30k, or COURSE_DATA")
    reader.add_argument("--record", type=Path, default=RECORD, metavar="FILE")
    options = reader.parse_args()
    logging.disable(logging.WARNING)  # of torchao: its kernels for GPUs do not load here
    warnings.simplefilter("ignore")  # of quantize_dynamic: it is deprecated
    with one_thread(), torch.no_grad():
        if options.multi30k:
            translator, _ = load_pipeline(RealTranslator, options.multi30k)
            pairs = read_pairs(translator.config, "val", options.data)
        else:
            translator, pairs = load_or_train(), draw_pairs("test", 1_000)
        models = rounded(translator.model.eval())
        ways = {name: replace(translator, model=model) for name, model in models.items()}
        rows = measure(ways, pairs, options.multi30k is not None)
        task = "multi30k" if options.multi30k else "numbers"
        entry = dict(task=task, machine=describe_machine("cpu"), sentences=len(pairs), rows=rows)
    for name, row in rows.items():
        speed = [f"{search} {row[search]['median']:.2f}" for search in SEARCHES if search in row]
        found = f"{row['score']:8.3f} {row['same']:6.3f} {row['megabytes']:6.2f} MB"
        print(f"{name:10} {found}", *speed)
    add_entry(options.record, entry, lambda entry: [entry["task"]])
    return 0


if __name__ == "__main__":
    sys.exit(main())
