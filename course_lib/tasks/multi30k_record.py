"""What real trainings came to: a file that is committed, so that it can be read without them."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course_lib.trainer.results import read_entries

RECORD = Path(__file__).with_name("multi30k_record.json")
CORPUS = Path(__file__).with_name(
    "multi30k_corpus.json"
)  # what tools/corpus_stats.py measured of Multi30k
# What tells two entries apart:
SETTINGS = ("direction", "seed", "epochs", "vocab_size", "dropout")
RUN = (*SETTINGS, "split", "average", "beam_size", "alpha")
# Captions of our own, German and English; how each translator writes them stands in its entry:
CAPTIONS = (
    ("Ein Mann fährt Fahrrad.", "A man is riding a bicycle."),
    ("Zwei Hunde spielen im Schnee.", "Two dogs are playing in the snow."),
    ("Eine Frau, die einen roten Hut trägt, liest.", "A woman wearing a red hat is reading."),
    ("Ein Kind hüpft über eine Pfütze.", "A child is jumping over a puddle."),
    ("Die Lehrerin erklärt, warum der Transformer kein Gedächtnis braucht.",
     "The teacher explains why the Transformer needs no memory."),
)  # fmt: skip


def read_record(path: Path = RECORD) -> list[dict[str, Any]]:
    """Return the entries, each of one trained translator on one split."""
    return read_entries(path)


def read_corpus_facts() -> dict[str, Any]:
    """Return what ``tools/corpus_stats.py`` has measured of Multi30k: numbers, no sentence."""
    return json.loads(CORPUS.read_text(encoding="utf-8"))


def written_captions(direction: str, write: Callable[[list[str]], list[str]]) -> list[list[str]]:
    """Have our own captions translated; return them, each with what was written."""
    ours = [pair[direction == "en-de"] for pair in CAPTIONS]
    return [list(both) for both in zip(ours, write(ours), strict=True)]


def entry_of(
    content: dict[str, Any],
    found: dict[str, Any],
    options: Namespace,
    write: Callable[[list[str]], list[str]],
) -> dict[str, Any]:
    """Return what was found of a translator, and all that somebody needs to repeat it.

    Args:
        content: Its checkpoint.
        found: What was measured.
        options: Those of ``course evaluate``.
        write: It translates.
    """
    config = content["config"]
    average = options.average or 1
    once = options.split == "val" and average == 1  # how it learned stands once in a record
    return {
        **{name: config[name] for name in SETTINGS},
        "split": options.split,
        "average": average,
        "beam_size": options.beam,
        "alpha": options.alpha,
        **found,
        "steps": content["step"],
        "minutes": {name: seconds / 60 for name, seconds in content["seconds"].items()},
        "machine": content["machine"],
        "config": config,
        "captions": written_captions(config["direction"], write),
        "history": content["history"] if once else [],
    }
