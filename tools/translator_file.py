"""Write the trained translator of chapter 11 for the browser: float16 weights and its tokens."""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file

from course_lib.data import spell
from course_lib.tasks.numbers import load_or_train

TRANSLATOR = "translator.safetensors"  # on the site, next to the modules of the explorers
TIED = ("src_embedding.weight", "output.weight")  # they are the target embedding


def write_translator(path: Path) -> None:
    """Write the translator that the chapters load; if there is none yet, it is trained first."""
    translator = load_or_train()
    weights = translator.model.state_dict()
    halves = {name: weight.half() for name, weight in weights.items() if name not in TIED}
    tokenizer = translator.tokenizer
    words = {word for n in range(100) for word in spell(n, "en").split()} | {"hundred", "thousand"}
    about = {
        "config": asdict(translator.config),
        "tokens": tokenizer.tokens(torch.arange(len(tokenizer))),
        "words": {word: translator.source_ids([word])[0].tolist() for word in sorted(words)},
    }
    save_file(halves, path, metadata={name: json.dumps(value) for name, value in about.items()})
