"""What trainings came to: files that are committed, so that they can be read without them."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from course_lib.tasks.language_model import PROMPTS, TextGenerator
from course_lib.tasks.language_model_scores import share_that_parses
from course_lib.trainer.results import add_entry, read_entries

RECORD = Path(__file__).with_name("language_model_record.json")
ABLATIONS = Path(__file__).with_name("ablation.json")
SAMPLE = 300  # characters written for a record
COPIES = 20  # texts to count the lines of
RUN = ("cut", "seed", "steps")  # what tells two trainings of ``tools/ablation.py`` apart


def read_record(path: Path = RECORD) -> list[dict[str, Any]]:
    """Return the entries that ``course evaluate --task gpt --record`` wrote, one for each training.

    Of each: its ``settings``, ``val_loss`` on all windows of val, the ``history`` of it on the
    first ones, ``parameters``, ``minutes``, ``machine``, a ``sample``, and, of Python, the
    ``parse_rate`` of the lines it writes.
    """
    return read_entries(path)


def entry_of(
    writer: TextGenerator, content: dict[str, Any], found: dict[str, Any]
) -> dict[str, Any]:
    """Return what was found of a writer, and all that somebody needs to repeat it.

    Args:
        writer: It writes a sample.
        content: Its checkpoint.
        found: What was measured.
    """
    config = writer.config
    of_python = config.text == "library"
    copies = COPIES if of_python else 1
    written = writer.generate(PROMPTS[config.text], SAMPLE, copies=copies, seed=config.seed)
    return {
        "settings": asdict(config),
        **found,
        "parameters": sum(p.numel() for p in writer.model.parameters()),
        "minutes": {name: seconds / 60 for name, seconds in content["seconds"].items()},
        "machine": content["machine"],
        "history": content["history"],
        "sample": written[0],
        **({"parse_rate": share_that_parses(written)} if of_python else {}),
    }


def read_ablations(path: Path = ABLATIONS) -> list[dict[str, Any]]:
    """Return what ``tools/ablation.py`` wrote: every model of chapter 17, cut by cut, seed by seed.

    Of each: ``cut`` (0 for nothing cut away), ``name``, ``seed``, ``steps``, ``parameters``,
    ``val_loss`` and ``minutes``.
    """
    return read_entries(path)


def add_ablation(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry, in place of an older one of the same training."""
    add_entry(path, entry, lambda e: [e[name] for name in RUN])
