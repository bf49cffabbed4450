"""Save chapter 11's translator for the browser: its weights in float16 and its tokens."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file

from course_lib.data import LIMIT, spell
from course_lib.tasks.numbers import load_or_train

TRANSLATOR = "translator.safetensors"  # on the site, next to the modules of the explorers
TIED = ("src_embedding.weight", "output.weight")  # the same matrix as the target embedding


def write_translator(path: Path) -> None:
    """Save the translator that the chapters load, and train it first if it does not exist yet."""
    translator = load_or_train()
    weights = translator.model.state_dict()
    halves = {name: weight.half() for name, weight in weights.items() if name not in TIED}
    numbers = [*range(1000), *range(1000, LIMIT, 1000)]  # the parts of every number
    about = {
        "config": asdict(translator.config),
        "tokens": translator.tokenizer.tokens(torch.arange(len(translator.tokenizer))),
        "english": {n: translator.source_ids([spell(n, "en")])[0].tolist() for n in numbers},
        "german": {n: spell(n, "de") for n in numbers},
    }
    save_file(halves, path, metadata={name: json.dumps(value) for name, value in about.items()})
