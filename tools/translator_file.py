"""Write the trained translator of chapter 11 for the browser: weights in float16, and a header."""

import json
from dataclasses import asdict
from pathlib import Path

from safetensors.torch import save_file

from course_lib.tasks.numbers import load_or_train
from course_lib.viz.heads_explorer import checksum

TRANSLATOR = "translator.safetensors"  # on the site, next to the modules of the explorers
TIED = ("src_embedding.weight", "output.weight")  # they are the target embedding


def write_translator(path: Path) -> None:
    """Write the translator that the chapters load; if there is none yet, it is trained first."""
    translator = load_or_train()
    weights = translator.model.state_dict()
    halves = {name: weight.half() for name, weight in weights.items() if name not in TIED}
    about = {
        "config": json.dumps(asdict(translator.config)),
        "tokenizer": translator.vocabulary(),
        "checksum": str(checksum(translator)),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(halves, path, metadata=about)
