"""Write the trained translator of chapter 11 for the browser: float16 weights and its tokens."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file

from course_lib.data import LIMIT, spell
from course_lib.tasks.numbers import load_or_train

TRANSLATOR = "translator.safetensors"  # on the site, next to the modules of the explorers
TIED = ("src_embedding.weight", "output.weight")  # they are the target embedding


def write_translator(path: Path) -> None:
    """Write the translator that the chapters load; if there is none yet, it is trained first."""
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
